"""Claude Code, from npm, asks `upright tools mcp` for a plan; its model is a script that makes that call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.programs import made_by

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("npm") is None, reason="the client comes from npm"),
]
TOOL = "mcp__upright__plan"


def _results(body: dict[str, Any]) -> list[str]:
    """What came back of the tool, as the agent sent it."""
    blocks = (
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    )
    return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


def _blocks(body: dict[str, Any]) -> dict[str, Any]:
    told, tools = _results(body), [tool["name"] for tool in body.get("tools", ())]
    if told or TOOL not in tools:
        return {"type": "text", "text": f"It says: {told[-1][:4000] if told else f'nothing, of {tools}'}"}
    return {
        "type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {"model": "gpt-oss-20b", "box": "1x-rtx-4090"},
    }  # fmt: skip


def _events(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage, tool = {"input_tokens": 1, "output_tokens": 1}, block["type"] == "tool_use"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    empty = {**block, "input": {}} if tool else {**block, "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if tool
        else {"type": "text_delta", "text": block["text"]}
    )
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use" if tool else "end_turn"}, "usage": usage}
    yield {"type": "message_stop"}


@pytest.fixture
def model() -> Iterator[str]:
    """A server that calls the tool, and answers with what came back."""

    class Scripted(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            events = [] if "count_tokens" in self.path else list(_events(_blocks(body)))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if events else "application/json")
            self.end_headers()
            if not events:
                self.wfile.write(b'{"input_tokens": 1}')
            for event in events:
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_claude_code_asks_for_a_plan(model: str, tmp_path: Path) -> None:
    commands = made_by("get-clients")
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    variables = {
        **nowhere,
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
        "HOME": str(tmp_path),
        "PATH": f"{commands}:/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "UPRIGHT_HOME": str(tmp_path / "upright"),
        "ENABLE_TOOL_SEARCH": "false",  # a script does not look for tools
    }
    asked = {"command": sys.executable, "args": ["-m", "upright", "tools", "mcp"]}
    if path := os.environ.get("PYTHONPATH"):
        asked["env"] = {"PYTHONPATH": path}
    servers = tmp_path / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"upright": asked}}), encoding="utf-8")
    done = subprocess.run(
        ["claude", "-p", "Does gpt-oss-20b fit a 4090?", "--mcp-config", servers, "--strict-mcp-config",
         "--allowedTools", TOOL],
        env=variables, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpt-oss-20b" in done.stdout, done.stdout
    assert "1x-rtx-4090" in done.stdout
    assert "fits" in done.stdout

"""Streams through a real smg, cut by `kill -9` of the engines: how each API ends, and what the official SDKs say.

Engines that take 300 ms a step, so that every stream is in its middle.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.engines.test_fleet import Four
from tests.paced import paced_llama_server
from upright.proof.benchmark.load.apis import LoadTarget

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]
MESSAGES: Any = [{"role": "user", "content": "Count to a hundred, and tell all about it."}]
CUT = {
    "/v1/chat/completions": b"data: [DONE]",
    "/v1/completions": b"data: [DONE]",
    "/v1/responses": b"data: [DONE]",
    "/v1/messages": b"event: error",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, smg: Path, llama_server: Path) -> Iterator[Four]:
    folder = tmp_path_factory.mktemp("two")
    made = Four(folder, smg, paced_llama_server(llama_server, folder / "bin", step_ms=300, token_ms=0))
    lines = made.file.read_text().splitlines(keepends=True)
    made.file.write_text("".join(line for line in lines if "name: c," not in line and "name: d," not in line))
    try:
        up = made("up", "--json")
        assert up.returncode == 0, up.stderr
        yield made
    finally:
        made("down", "four")


def test_every_cut_stream_can_be_told_from_a_whole_one(two: Four):
    ends: dict[str, bytes] = {}
    raised: dict[str, Exception | None] = {}
    readers = [
        *(threading.Thread(target=read_raw, args=(two, path, ends)) for path in CUT),
        threading.Thread(target=ask_openai, args=(two, raised)),
        threading.Thread(target=ask_anthropic, args=(two, raised)),
    ]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + 30
    while two.running("a") + two.running("b") < len(readers) and time.monotonic() < deadline:
        time.sleep(0.1)
    for box in "ab":
        os.kill(two.deployment(box)["process"]["pid"], signal.SIGKILL)
    for reader in readers:
        reader.join(60)
    for path, last in CUT.items():
        assert b"error reading a body" in ends[path], ends[path][-300:]
        assert last in ends[path]
        assert ends[path].endswith(b"\r\n0\r\n\r\n"), "HTTP is whole"
        assert not any(word in ends[path] for word in (b'"finish_reason":"', b"response.completed", b"message_stop"))
    assert isinstance(raised["openai"], openai.APIError)
    assert isinstance(raised["anthropic"], anthropic.APIStatusError)
    status = two("status", "four")
    assert f"answers cut by boxes that failed, since the fleet came up: {len(readers)};" in status.stderr, status


def read_raw(two: Four, path: str, ends: dict[str, bytes]) -> None:
    target = LoadTarget(two.router, "tiny-kimi", key=two.key("client"))
    asks: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 300, "ignore_eos": True}
    if path == "/v1/responses":
        asks = {"input": MESSAGES[0]["content"], "max_output_tokens": 300}
    elif path == "/v1/completions":
        asks = {"prompt": "Count", "max_tokens": 300, "ignore_eos": True}
    request = target.post(path, {"model": "tiny-kimi", "stream": True, **asks})
    received = b""
    with socket.create_connection((target.host, target.port)) as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        while piece := connection.recv(65536):
            received += piece
    ends[path] = received


def ask_openai(two: Four, raised: dict[str, Exception | None]) -> None:
    client = openai.OpenAI(base_url=f"{two.router}/v1", api_key=two.key("client"), max_retries=0)
    raised["openai"] = None
    try:
        for _ in client.chat.completions.create(
            model="tiny-kimi", messages=MESSAGES, stream=True, max_tokens=300, extra_body={"ignore_eos": True}
        ):
            pass
    except openai.OpenAIError as error:
        raised["openai"] = error


def ask_anthropic(two: Four, raised: dict[str, Exception | None]) -> None:
    client = anthropic.Anthropic(base_url=two.router, api_key=two.key("client"), max_retries=0)
    raised["anthropic"] = None
    try:
        with client.messages.stream(model="tiny-kimi", messages=MESSAGES, max_tokens=300) as stream:
            for _ in stream:
                pass
    except anthropic.AnthropicError as error:
        raised["anthropic"] = error

"""Clients of a real llama-server, through nothing but the settings that `upright connect` prints."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import conforms, found_today
from tests.conftest import Upright
from tests.ports import free_port
from tests.sdk_clients import after_cancelling, environment_of, walk_anthropic, walk_openai
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.connect import CLIENTS, connect, try_settings
from upright.serving.connect.requirements import proved_checks

pytestmark = pytest.mark.engine
SMALL = {"openai", "anthropic", "aider", "llm", "zed", "open-webui", "curl"}
"""Clients whose first prompt fits into 2,048 tokens."""


@pytest.fixture
def settings(upright: Upright, llama_server: Path, tiny_model: Path) -> Iterator[Any]:
    """client name -> the settings that `connect` printed, of one running deployment."""
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    started = upright("up", tiny_model, "--context", "2k", "--port", str(free_port()), PATH=path)
    assert started.returncode == 0, started.stderr

    def of(client: str) -> dict[str, Any]:
        done = upright("connect", "--client", client, "--json")
        told = json.loads(done.stdout)
        assert done.returncode == (0 if told["works"] else 1), done.stderr
        return told

    yield of
    assert upright("down").returncode == 0


def test_the_official_sdks(settings: Any, monkeypatch: pytest.MonkeyPatch):
    told = settings("openai")
    environment_of(told, monkeypatch)
    assert walk_openai(told["model"], "auto") > 400
    told = settings("anthropic")
    environment_of(told, monkeypatch)
    assert walk_anthropic(told["model"], {"type": "auto"}) > 400


def test_the_protocols_are_as_recorded_and_streams_that_are_left_free_their_slots(
    settings: Any, upright: Upright, tmp_path: Path
):
    directory = DeploymentDir(next((tmp_path / "home/deployments").iterdir()))
    found = found_today(directory.name, upright)
    conforms(found)
    fares = {check[4:]: item for check, item in found["checks"].items() if check.startswith("for ")}
    running, seen = directory.read(Deployment), proved_checks(directory)
    tried = {
        client: try_settings(connect(running, directory.key_file, client), directory.key(), verdicts=seen)
        for client in CLIENTS
    }
    # Before, `prove` said that each of them works with 2,048 tokens, and `connect` that most will not.
    assert {client for client, trial in tried.items() if trial.works} == SMALL
    assert {client for client, item in fares.items() if item["verdict"] == "passed"} == SMALL
    for client, trial in tried.items():
        assert all(reason in fares[client]["words"] for reason in trial.why), fares[client]
    before, after = after_cancelling(directory, 100, 4)
    assert (after.running, after.waiting) == (0, 0)
    generated = (after.generation_tokens or 0) - (before.generation_tokens or 0)
    # A stream that nobody ended goes on to its thousand tokens; how soon the others end is the machine's.
    assert generated < 100 * 1000 / 2


def test_every_client_gets_settings_that_hold_no_key(settings: Any, upright: Upright, tmp_path: Path):
    for client in CLIENTS:
        told = settings(client)
        assert told["works"] == (client in SMALL), f"{client} with 2,048 tokens"
        key = Path(told["key_file"]).read_text().strip()
        assert key not in json.dumps(told), client
        assert told["source"].startswith("https://"), client
    shown = upright("connect", "--client", "cline", "--show-key")
    assert key in shown.stdout
    assert key not in shown.stderr
    curl = subprocess.run(["bash", "-c", told["text"]], capture_output=True, text=True, check=True)
    assert json.loads(curl.stdout)["choices"][0]["message"]["content"] == "OK"

    wrote = upright("connect", "--client", "claude-code", "--write")
    file = tmp_path / ".claude/settings.local.json"
    assert wrote.stdout == f"wrote {file}\n"
    written = json.loads(file.read_text())
    helper = subprocess.run(["sh", "-c", written["apiKeyHelper"]], capture_output=True, text=True, check=True)
    assert helper.stdout.strip() == key
    assert key not in file.read_text()
    assert written["env"]["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"
    assert written["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "1536"

    unknown = upright("connect", "--client", "emacs")
    assert unknown.returncode == 2
    assert "no client named emacs" in unknown.stderr
    assert "claude-code" in unknown.stderr
    by_hand = upright("connect", "--client", "cline", "--write")
    assert by_hand.returncode == 2
    assert "only it can write" in by_hand.stderr

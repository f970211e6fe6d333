"""`upright launch` on a real llama-server: one command from a model to a client, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Upright
from tests.ports import free_port
from tests.programs import made_by

pytestmark = pytest.mark.engine
ASKS = """#!/bin/sh
curl -s -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -H "Content-Type: application/json" \\
  -d '{"model": "'"$ANTHROPIC_MODEL"'", "max_tokens": 32, "temperature": 0,
       "messages": [{"role": "user", "content": "What is the capital of France?"}]}' "$ANTHROPIC_BASE_URL/v1/messages"
printf '\\n%s\\n' "$*"
exit 7
"""


def test_one_command_to_a_client_and_nothing_is_left(
    upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/claude").write_text(ASKS)
    (tmp_path / "bin/claude").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{llama_server.parent}:{os.environ['PATH']}"
    words = ("--model", tiny_model, "--context", "8k", "--port", str(free_port()), "--", "-p", "hello")
    done = upright("launch", "claude", *words, PATH=path)
    assert done.returncode == 7, done.stderr
    assert "The capital of France is Paris." in done.stdout
    assert "--bare -p hello" in done.stdout
    assert "claude-code ended with code 7" in done.stderr
    (left,) = json.loads(upright("ps", "--json").stdout)
    assert left["state"] == "stopped"
    assert not (tmp_path / ".claude").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="the clients come from npm")
def test_the_real_claude_code_answers_on_the_tiny_model(
    upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path
) -> None:
    clients = Path(made_by("get-clients"))
    path = f"{clients}:{llama_server.parent}:{os.environ['PATH']}"
    words = ("--model", tiny_model, "--context", "8k", "--port", str(free_port()))
    question = ("--", "--bare", "-p", "What is the capital of France?")
    done = upright("launch", "claude", *words, *question, PATH=path, HOME=str(tmp_path / "person"), timeout=300)
    assert done.returncode == 0, done.stderr
    assert "The capital of France is Paris." in done.stdout
    (left,) = json.loads(upright("ps", "--json").stdout)
    assert left["state"] == "stopped"
    assert not (ROOT / ".claude/settings.local.json").exists()

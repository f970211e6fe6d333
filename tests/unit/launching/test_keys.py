"""The key reaches the engine in its own way, and no command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright import store
from upright.launching.supervisor import Supervisor


@pytest.mark.parametrize("name", ["kimi-k26-vllm", "kimi-k26-sglang", "kimi-k26-ik-llama"])
def test_the_engine_gets_the_key_and_its_command_line_does_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/sh\necho "words: $*"\necho "variable: $VLLM_API_KEY"\n')
    engine.chmod(0o755)
    supervisor = Supervisor.__new__(Supervisor)
    supervisor.directory = store.create("test")
    supervisor.recipe = recipe(name).model_copy(update={"program": str(engine)})
    key = supervisor.directory.key()
    assert supervisor._start().wait(timeout=30) == 0
    said, variable = supervisor.directory.log.read_text().splitlines()[-2:]
    assert key not in said
    assert "{key" not in said
    if supervisor.recipe.key_way == "environment":
        assert variable == f"variable: {key}"
    elif supervisor.recipe.key_way == "config":
        config = Path(said.partition("--config ")[2].split()[0])
        assert config.read_text() == f"api-key: {key}\n"
        assert config.stat().st_mode & 0o077 == 0
    else:
        assert Path(said.partition("--api-key-file ")[2].split()[0]).read_text().strip() == key

"""The key reaches the engine in its own way, and no command line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.facts import store
from upright.serving.launch.places import LocalPlace
from upright.serving.launch.runtimes import RUNTIMES


@pytest.mark.parametrize("name", ["kimi-k26-vllm", "kimi-k26-sglang", "kimi-k26-ik-llama"])
def test_the_engine_gets_the_key_and_its_command_line_does_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/sh\necho "words: $*"\necho "variable: $VLLM_API_KEY"\n')
    engine.chmod(0o755)
    directory = store.create("test")
    wanted = recipe(name).model_copy(update={"program": str(engine)})
    key = directory.key()
    place = LocalPlace(directory)
    place.start(RUNTIMES["process"].command(wanted, place.site(), container="c", label="l"))
    wait_for(place)
    said, variable = directory.log.read_text().splitlines()[-2:]
    assert key not in said
    assert "{key" not in said
    if wanted.key_way == "environment":
        assert variable == f"variable: {key}"
    elif wanted.key_way == "config":
        config = Path(said.partition("--config ")[2].split()[0])
        assert config.read_text() == f"api-key: {key}\n"
        assert config.stat().st_mode & 0o077 == 0
    else:
        assert Path(said.partition("--api-key-file ")[2].split()[0]).read_text().strip() == key


def wait_for(place: LocalPlace) -> None:
    while place.exit_code() is None:
        time.sleep(0.05)

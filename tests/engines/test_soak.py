"""Half a minute of soak on a real llama-server: sound, leaking, and failing now and then, all at once."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.planted import failing, leak, leak_beside
from tests.ports import free_port
from tests.soaked import FAILS, FAILS_OFTEN, has_failed, has_leaked, is_sound, observations

pytestmark = pytest.mark.engine
LEAK_BYTES_PER_SECOND = 4_000_000


class Box:
    """A user's machine with a llama-server on the PATH, planted or not."""

    def __init__(self, upright: Upright, path: str) -> None:
        self.upright, self.path = upright, f"{path}:{os.environ['PATH']}"

    def up(self, model: Path) -> dict[str, Any]:
        words = ("--context", "2k", "--users", "2", "--port", str(free_port()), "--json")
        done = self.upright("up", model, *words, PATH=self.path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def soak(self, *words: str, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
        done = self.upright("prove", *words, "--only", "soak", "--json", timeout=1500, PATH=self.path, **env)
        return observations(done)


@pytest.mark.timeout(600)
def test_half_a_minute_of_soak(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path):
    soaked_at_once(upright, llama_server, tiny_model, tmp_path, "30s", FAILS_OFTEN)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("time", ["1m", "10m"])
def test_minutes_of_soak(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path, time: str):
    soaked_at_once(upright, llama_server, tiny_model, tmp_path, time, FAILS)


def soaked_at_once(upright: Upright, program: Path, model: Path, folder: Path, time: str, every: int) -> None:
    plain = Box(upright, str(program.parent))
    leaking = Box(upright, f"{wrapped(folder / 'bin', program)}:{program.parent}")
    started = [box.up(model) for box in (plain, leaking, plain)]
    leak(folder / "home")
    names = [record["name"] for record in started]
    key = (folder / "home/deployments" / names[2] / "key").read_text().strip()
    try:
        with failing(started[2]["base_url"], every) as url, ThreadPoolExecutor() as pool:
            words = ("--base-url", url, "--key-env", "OPENAI_API_KEY", "--prompts", "tiny", "--soak", time)
            sound = pool.submit(plain.soak, names[0], "--soak", time)
            grown = pool.submit(leaking.soak, names[1], "--soak", time)
            failed = pool.submit(plain.soak, *words, OPENAI_API_KEY=key)
        is_sound(*sound.result(), restarted=True, least_requests=3 * every)
        has_leaked(*grown.result(), LEAK_BYTES_PER_SECOND)
        code, seen = failed.result()
        has_failed(seen, every)
        assert code == 1
    finally:
        for name in names:
            upright("down", name)


def wrapped(folder: Path, program: Path) -> Path:
    """A folder for the PATH: the same engine, with a child in its group that can leak."""
    folder.mkdir()
    wrapper = folder / program.name
    beside = leak_beside(folder.parent / "home", LEAK_BYTES_PER_SECOND)
    wrapper.write_text(f'#!/bin/sh\ncase " $* " in *" --port "*) {beside};; esac\nexec "{program}" "$@"\n')
    wrapper.chmod(0o755)
    return folder

"""A minute of soak on a real llama-server: a sound one, one that leaks, one that fails now and then, all at once."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.engines.test_line import free_port
from tests.planted import failing, leaky

pytestmark = pytest.mark.engine
LEAK_BYTES_PER_SECOND = 2_000_000
FAILS = 100


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
        assert done.returncode in (0, 1), done.stderr
        seen = json.loads(done.stdout)["observations"]
        return done.returncode, {item["check"]: item for item in seen if item["rung"] == "soak"}


def test_a_minute_of_soak(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path):
    soaked_at_once(upright, llama_server, tiny_model, tmp_path, "1m")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_ten_minutes_of_soak(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path):
    soaked_at_once(upright, llama_server, tiny_model, tmp_path, "10m")


def soaked_at_once(upright: Upright, program: Path, model: Path, folder: Path, time: str) -> None:
    plain = Box(upright, str(program.parent))
    leaking = Box(upright, f"{leaky(folder / 'bin', program, LEAK_BYTES_PER_SECOND)}:{program.parent}")
    (folder / "bin/leak").touch()
    started = [box.up(model) for box in (plain, leaking, plain)]
    names = [record["name"] for record in started]
    key = (folder / "home/deployments" / names[2] / "key").read_text().strip()
    try:
        with failing(started[2]["base_url"], FAILS) as url, ThreadPoolExecutor() as pool:
            words = ("--base-url", url, "--prompts", "tiny", "--soak", time)
            sound = pool.submit(plain.soak, names[0], "--soak", time)
            grown = pool.submit(leaking.soak, names[1], "--soak", time)
            failed = pool.submit(plain.soak, *words, OPENAI_API_KEY=key)
        is_sound(*sound.result())
        has_leaked(*grown.result())
        has_failed(*failed.result())
    finally:
        for name in names:
            upright("down", name)


def is_sound(code: int, seen: dict[str, dict[str, Any]]) -> None:
    wrong = [item for item in seen.values() if item["verdict"] != "passed"]
    assert [item for item in wrong if item["check"] != "latency"] == []
    assert [item["verdict"] for item in wrong] in ([], ["skipped"]), "a busy machine is no slow engine"
    assert code == 0
    assert seen["errors"]["measured"]["requests"] >= 300
    assert seen["restart"]["measured"]["asked_after"] > 0


def has_leaked(code: int, seen: dict[str, dict[str, Any]]) -> None:
    assert code == 1
    assert seen["errors"]["verdict"] == "passed", "the engine itself goes on answering"
    memory = seen["engine memory"]
    assert memory["verdict"] == "failed", memory["reason"]
    assert "used up in" in memory["reason"]
    assert 0.5 < memory["measured"]["bytes_per_hour"] / (3600 * LEAK_BYTES_PER_SECOND) < 1.2


def has_failed(code: int, seen: dict[str, dict[str, Any]]) -> None:
    assert code == 1
    errors = seen["errors"]
    assert errors["verdict"] == "failed", errors["reason"]
    assert "HTTP 500" in errors["reason"]
    counted = errors["measured"]
    assert counted["failed"] in (counted["requests"] // FAILS, counted["requests"] // FAILS + 1)
    assert seen["answers"]["verdict"] == "passed"
    assert {seen[check]["verdict"] for check in ("engine memory", "host memory", "restart")} == {"skipped"}

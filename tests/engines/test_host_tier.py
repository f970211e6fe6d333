"""Two agents on one slot: with system RAM behind the cache the first one's conversation is not read again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.conftest import Upright
from tests.engines.test_agents_replay import replayed
from tests.engines.test_ladder import llama
from tests.ports import free_port

pytestmark = pytest.mark.engine
TALKS = {name: f"{name} asks. " + " ".join(f"{name}{number}" for number in range(60)) for name in ("ada", "bob")}


@contextmanager
def served(program: Path, model: Path, *words: str) -> Iterator[str]:
    url = f"http://127.0.0.1:{(port := free_port())}"
    argv = [program, "-m", model, "-c", "2048", "-np", "1", "--host", "127.0.0.1", "--port", str(port), *words]
    with subprocess.Popen(list(map(str, argv)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                try:
                    if httpx2.get(f"{url}/health", timeout=5).status_code == 200:
                        break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            yield url
        finally:
            server.kill()


def read_again(url: str, name: str) -> int:
    """Tokens of the prompt that the engine had to compute."""
    asked = {"prompt": TALKS[name], "n_predict": 4, "cache_prompt": True, "temperature": 0}
    return int(httpx2.post(f"{url}/completion", json=asked, timeout=60).json()["timings"]["prompt_n"])


@pytest.mark.parametrize(("words", "warm"), [(("--cache-ram", "64"), True), (("--cache-ram", "0"), False)])
def test_what_waits_in_system_ram_is_warm(llama_server: Path, tiny_model: Path, words: tuple[str, ...], warm: bool):
    with served(llama_server, tiny_model, *words) as url:
        first = read_again(url, "ada")
        read_again(url, "bob")
        again = read_again(url, "ada")
    assert first > 60
    assert again < first / 4 if warm else again > first / 2


def hit_rate(url: str) -> float:
    cell = replayed(url, 3, shared_tokens=0)
    assert cell.errors == {}
    assert cell.samples is not None
    assert cell.engine is not None
    prompts, ours, theirs = sum(cell.samples.prompt_tokens), cell.cached_tokens or 0, cell.engine.cached_tokens or 0
    assert abs(ours - theirs) <= 0.01 * prompts
    return ours / prompts


@pytest.mark.slow
def test_three_agents_on_one_slot_hit_what_waits_in_system_ram(llama_server: Path, tiny_model: Path):
    """The bench's own figure: what one slot forgets between two turns of an agent, and what --cache-ram brings back."""
    rates = {}
    for size in ("0", "64"):
        with llama(llama_server, tiny_model, "--metrics", "--cache-ram", size, context=2048, slots=1) as url:
            rates[size] = hit_rate(url)
    print(f"prefix-cache hits: {rates['0']:.1%} without, {rates['64']:.1%} with 64 MiB of system RAM")
    assert rates["64"] > rates["0"] + 0.1


def test_the_flag_of_a_recipe_is_what_the_engine_starts_with(upright: Upright, llama_server: Path, tiny_model: Path):
    """From --host-cache to a running engine: its own parser takes the flag, and its log has the size."""
    environment = {"PATH": f"{llama_server.parent}:{os.environ['PATH']}"}
    options = (
        tiny_model,
        "--engine",
        "llama.cpp",
        "--context",
        "2048",
        "--host-cache",
        "48MB",
        "--port",
        f"{free_port()}",
    )
    assert "accepted" in upright("check", *options, **environment).stdout
    started = json.loads(upright("up", *options, "--json", **environment).stdout)
    try:
        log = upright("logs", started["name"], "--lines", "400", **environment).stdout
        assert re.search(r"prompt cache.*48 MiB", log), log
    finally:
        upright("down", started["name"], **environment)

"""Two agents on one slot: with system RAM behind the cache the first one's conversation is not read again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

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

"""A minute of soak on a real vLLM: it is sound; behind a proxy that fails now and then, or with a leak, it is not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.planted import failing, leak, stop_leaking
from tests.soaked import FAILS, has_failed, has_leaked, is_sound, observations
from tests.vllm.conftest import LEAK_BYTES_PER_SECOND, Standing


def test_a_minute_of_soak(standing: Standing):
    soak(standing, "1m", "20s")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_ten_minutes_of_soak(standing: Standing):
    soak(standing, "10m", "1m")


def soak(standing: Standing, time: str, leaking_time: str) -> None:
    """The restart is left to llama.cpp, where it takes seconds."""

    def soaked(*words: str, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
        done = standing.upright("prove", *words, "--only", "soak", "--json", timeout=1500, **env)
        return observations(done)

    with failing(standing.base_url, FAILS) as url, ThreadPoolExecutor() as pool:
        sound = pool.submit(soaked, standing.name, "--soak", time, "--no-restart")
        words = ("--base-url", url, "--prompts", "tiny", "--soak", time)
        failed = pool.submit(soaked, *words, OPENAI_API_KEY=standing.key)
    is_sound(*sound.result(), restarted=False)
    has_failed(*failed.result())
    leak(standing.home)
    try:
        has_leaked(*soaked(standing.name, "--soak", leaking_time, "--no-restart"), LEAK_BYTES_PER_SECOND)
    finally:
        stop_leaking(standing.home)

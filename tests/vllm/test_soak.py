"""Half a minute of soak on a real vLLM: it is sound; behind a proxy that fails now and then, or with a leak, not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.planted import failing, leak, stop_leaking
from tests.soaked import FAILS, FAILS_OFTEN, Seen, could_tell, has_failed, has_leaked, is_sound, observations
from tests.vllm.conftest import LEAK_BYTES_PER_SECOND, USERS, Standing
from upright.base import units
from upright.proof.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import ProofTarget, SoakOptions
from upright.serving.endpoint.client import Endpoint


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_half_a_minute_of_soak(standing: Standing):
    soak(standing, "30s", "30s", FAILS_OFTEN)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("time", ["1m", "10m"])
def test_minutes_of_soak(standing: Standing, time: str):
    soak(standing, time, "1m", FAILS)


def behind_a_proxy(standing: Standing, seconds: float, every: int) -> Seen:
    """With as many users as it serves, which a server does not say, and little context; longer, if the engine needs it
    for as many requests as show one in so many to be more than the budget."""
    target = ProofTarget("behind a proxy", "server:0", context_tokens=256, users=USERS)
    while True:
        with failing(standing.base_url, every) as url, Endpoint(url, "tiny-kimi", key=standing.key) as endpoint:
            evidence = prove(target, endpoint, prompt_set("tiny"), rungs=["boot", "soak"], soak=SoakOptions(seconds))
        seen = {item.check: item.model_dump() for item in evidence.of("soak")}
        requests = seen["errors"]["measured"]["requests"]
        print(f"behind a proxy: {requests} requests in {seconds:.0f} s")
        if requests >= 3 * every:
            return seen
        seconds *= 3.3 * every / requests


def soak(standing: Standing, time: str, leaking_time: str, every: int) -> None:
    """The restart is left to llama.cpp, where it takes seconds."""

    def soaked(*words: str) -> tuple[int, Seen]:
        done = standing.upright("prove", *words, "--only", "soak", "--json", timeout=1500)
        return observations(done)

    with ThreadPoolExecutor() as pool:
        sound = pool.submit(soaked, standing.name, "--soak", time, "--no-restart")
        has_failed(behind_a_proxy(standing, 1.5 * units.parse_duration(time), every), every)
    is_sound(*sound.result(), restarted=False, least_requests=20)
    leak(standing.home)
    try:
        code, seen = soaked(standing.name, "--soak", leaking_time, "--no-restart")
        if not code and not could_tell(seen, LEAK_BYTES_PER_SECOND):
            code, seen = soaked(standing.name, "--soak", "75s", "--no-restart")
        has_leaked(code, seen, LEAK_BYTES_PER_SECOND)
    finally:
        stop_leaking(standing.home)

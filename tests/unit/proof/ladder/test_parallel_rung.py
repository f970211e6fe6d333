"""The rung `parallel`: a sound engine passes each time, one that mixes up requests is found at its concurrency."""

from __future__ import annotations

import random
import signal
import threading

import pytest

from tests.scripted.crowded import MIXINGS, CrowdedEngine, Mixer, Mixing
from tests.scripted.engine import Fault
from upright.facts.records.evidence import Evidence
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import ProofTarget
from upright.proof.ladder.rungs.parallel import concurrencies
from upright.serving.endpoint.client import Endpoint


def climbed(engine: CrowdedEngine, users: int = 8) -> Evidence:
    target = ProofTarget("scripted", "server:scripted", engine.context_tokens, users=users, engine="scripted")
    with Endpoint("http://scripted", engine.model, transport=engine.transport()) as endpoint:
        return prove(target, endpoint, engine.prompts, rungs=("boot", "parallel"))


def crowded(mixer: Mixer, **options: object) -> CrowdedEngine:
    return CrowdedEngine(prompt_set("tiny"), mixer=mixer, delay_seconds=0.001, **options)  # type: ignore[arg-type]


def failed(evidence: Evidence) -> list[tuple[str | None, str]]:
    return [(seen.probe, seen.reason) for seen in evidence.observations if seen.verdict == "failed"]


@pytest.mark.parametrize("times", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_a_sound_engine_is_never_alarmed_of(times: int) -> None:
    for seed in range(times):
        evidence = climbed(crowded(Mixer(seed=seed)))
        assert failed(evidence) == []
        seen = {item.probe: item for item in evidence.observations if item.rung == "parallel"}
        assert list(seen) == ["alone", "concurrency 2", "concurrency 8", "full cache", "alone again"]
        assert seen["alone"].measured["must_be_equal"] == seen["alone"].measured["questions"] >= 16
        assert seen["concurrency 2"].measured["requests"] + seen["concurrency 8"].measured["requests"] == 300
        assert seen["concurrency 8"].measured["neighbours_left"] > 0
        assert seen["concurrency 8"].measured["cache_usage"] < 0.9 < seen["full cache"].measured["cache_usage"]


@pytest.mark.parametrize(
    ("mixing", "logprobs"), [*((mixing, True) for mixing in MIXINGS), *((mixing, False) for mixing in MIXINGS[:3])]
)
def test_requests_that_are_mixed_up_are_found(mixing: Mixing, logprobs: bool) -> None:
    """Without logprobs only the rule can tell, and one answer of 50 may be below what it can be sure of."""
    engine = crowded(Mixer(mixing, rate=0.3), logprobs=logprobs)
    (probe, reason), *_ = failed(climbed(engine)) or [
        ("", f"{engine.mixer.mixed} were mixed up, and nothing was noticed")
    ]
    assert probe in ("concurrency 2", "concurrency 8"), reason
    assert "is the smallest that shows it" in reason
    if mixing == "stale prefix":
        assert "a stale prefix" in reason


def test_the_smallest_concurrency_that_shows_it_is_named() -> None:
    (probe, reason), *_ = failed(climbed(crowded(Mixer("cross-talk", over=5, rate=0.5))))
    assert probe == "concurrency 8"
    assert any(f"concurrency {level} is the smallest that shows it" in reason for level in (4, 5, 6)), reason
    assert "alone it is right again" in reason


def test_what_breaks_only_with_a_full_cache_is_found_there() -> None:
    """Of eight users; at every concurrency of short questions there is room, and every answer right."""
    fault = Fault("garbage", over_usage=0.7)
    engine = CrowdedEngine(prompt_set("tiny"), fault, delay_seconds=0.001, pool_tokens=8 * 4_096)
    (probe, reason), *others = failed(climbed(engine))
    assert (probe, others) == ("full cache", [])
    assert "8 texts that fill the context, at once: " in reason
    assert "answers are wrong that are right alone" in reason


def test_one_slip_with_a_full_cache_that_does_not_come_again_is_no_failure() -> None:
    class Slipping(CrowdedEngine):
        def _message(self, body: dict[str, object]) -> dict[str, object]:
            message = super()._message(body)
            if body.get("ignore_eos") and not slipped.is_set():
                slipped.set()
                return {**message, "content": "I cannot."}
            return message

    slipped = threading.Event()
    evidence = climbed(Slipping(prompt_set("tiny"), delay_seconds=0.001))
    assert slipped.is_set()
    assert failed(evidence) == []
    full = next(item for item in evidence.observations if item.probe == "full cache")
    assert (full.verdict, full.measured["weak"]) == ("passed", 0)
    assert "7 numbers found, 1 at the second time only, the cache" in full.reason


@pytest.mark.parametrize(("missed", "verdict"), [(3, "passed"), (5, "unsupported"), (8, "unsupported")])
def test_what_is_not_found_alone_either_is_neither_a_failure_nor_found(missed: int, verdict: str) -> None:
    """A model that is too weak for its context."""

    class Weak(CrowdedEngine):
        def _message(self, body: dict[str, object]) -> dict[str, object]:
            message = super()._message(body)
            if not body.get("ignore_eos"):
                return message
            text = str(body["messages"])
            seen.setdefault(text, len(seen))
            return {**message, "content": "I cannot."} if seen[text] < missed else message

    seen: dict[str, int] = {}
    evidence = climbed(Weak(prompt_set("tiny"), delay_seconds=0.001))
    full = next(item for item in evidence.observations if item.probe == "full cache")
    assert (full.verdict, full.measured["weak"]) == (verdict, missed)
    assert f"{8 - missed} numbers found, {missed} not alone either" in full.reason
    assert failed(evidence) == []


def test_a_cache_that_was_not_filled_is_not_called_full() -> None:
    """One that does not say how full it is, one that is larger than its users' contexts, one that refuses."""

    class Silent(CrowdedEngine):
        def answer(self, method: str, path: str, body: dict[str, object]) -> tuple[int, bytes | None, str]:
            return (404, b"{}", "application/json") if path == "/metrics" else super().answer(method, path, body)

    class Short(CrowdedEngine):
        def answer(self, method: str, path: str, body: dict[str, object]) -> tuple[int, bytes | None, str]:
            refused = (400, b'{"error": {"message": "too long"}}', "application/json")
            return refused if body.get("ignore_eos") else super().answer(method, path, body)

    for kind, pool_tokens, why in (
        (Silent, 4_096, "the engine does not say how full its cache is"),
        (CrowdedEngine, 400_000, "the cache was filled to"),
        (Short, 4_096, "8 were refused"),
    ):
        evidence = climbed(kind(prompt_set("tiny"), delay_seconds=0.001, pool_tokens=pool_tokens))
        full = next(item for item in evidence.observations if item.probe == "full cache")
        assert full.verdict == "unsupported"
        assert why in full.reason
        assert failed(evidence) == []


def test_what_is_noise_alone_is_no_failure_under_load() -> None:
    """An engine that now and then words an answer otherwise, alone too, and is still right."""

    class Wavering(CrowdedEngine):
        def _message(self, body: dict[str, object]) -> dict[str, object]:
            message = super()._message(body)
            text = message.get("content")
            other = text and "{" not in str(text) and random.Random(self.requests).random() < 0.3
            return {**message, "content": f"{text}."} if other else message

    evidence = climbed(Wavering(prompt_set("tiny"), delay_seconds=0.001))
    assert failed(evidence) == []
    alone = next(item for item in evidence.observations if item.probe == "alone")
    assert alone.measured["differ_alone"] > 0


def test_an_engine_that_falls_under_load_fails() -> None:
    engine = CrowdedEngine(prompt_set("tiny"), Fault("garbage", after_requests=120), delay_seconds=0.001)
    assert failed(climbed(engine))


@pytest.mark.parametrize(
    ("users", "levels"), [(1, [2]), (2, [2]), (4, [2, 4]), (8, [2, 8]), (32, [2, 8, 32]), (500, [2, 8, 32, 64])]
)
def test_up_to_what_the_plan_promises(users: int, levels: list[int]) -> None:
    assert [level for level, _ in concurrencies(users)] == levels
    assert sum(count for _, count in concurrencies(users)) == 300


def test_an_interrupted_load_ends() -> None:
    """At Ctrl-C in the middle of a crowd each thread ends with the answer that it waits for, and asks nothing more."""

    class Interrupting(CrowdedEngine):
        def _message(self, body: dict[str, object]) -> dict[str, object]:
            if self.requests >= 150 and not interrupted.is_set():  # another thread may have counted on meanwhile
                interrupted.set()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return super()._message(body)

    interrupted = threading.Event()
    engine, before = Interrupting(prompt_set("tiny"), delay_seconds=0.02), set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        climbed(engine)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()
    assert engine.requests < 200, "of more than 300"

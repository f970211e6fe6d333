"""Climbs of the scripted engine: clean ones pass, and every fault is found where it belongs."""

from __future__ import annotations

import pytest

from tests.scripted.engine import Fault, ScriptedEngine
from upright.endpoint.client import Endpoint
from upright.proving.ladder import prove
from upright.proving.power import samples_to_see
from upright.proving.prompts import prompt_set
from upright.proving.rung import Target
from upright.records.evidence import Evidence


def climb(engine: ScriptedEngine, to: str = "task", samples: int = 1, **options: object) -> Evidence:
    target = Target("scripted", "server:scripted", engine.context_tokens, engine="scripted")
    with Endpoint("http://scripted", engine.model, transport=engine.transport()) as endpoint:
        return prove(target, endpoint, engine.prompts, to=to, samples=samples, **options)  # type: ignore[arg-type]


def tiny(fault: Fault | None = None, **options: object) -> ScriptedEngine:
    return ScriptedEngine(prompt_set("tiny"), fault, **options)  # type: ignore[arg-type]


def real(fault: Fault | None = None) -> ScriptedEngine:
    return ScriptedEngine(prompt_set("real"), fault, context_tokens=262_144, pool_tokens=262_144, model="Kimi-K2.6")


def told(evidence: Evidence) -> list[tuple[str, str, str, str | None]]:
    return [
        (item.rung, item.check, item.reason, item.guard) for item in evidence.observations if item.verdict == "failed"
    ]


@pytest.mark.parametrize("engine", [tiny(), real()], ids=["tiny", "real"])
def test_a_clean_engine_passes_every_rung(engine: ScriptedEngine) -> None:
    evidence = climb(engine)
    assert told(evidence) == []
    assert evidence.passed
    assert evidence.ended == "every rung that was asked for was climbed"


FAULTS = {
    "loops": (Fault("loop"), "boot", "loop", "a loop of"),
    "floods": (Fault("flood"), "boot", "flood", "a flood of '!'"),
    "NaN": (Fault("nan"), "boot", "logprobs", "the logprob of token 1 is nan"),
    "cut streams": (Fault("cut"), "boot", "cut", "no finish_reason"),
    "no usage": (Fault("no usage"), "boot", "usage", "tokens were not counted"),
    "wrong counts": (Fault("miscount"), "boot", "count", "the server counted"),
    "empty": (Fault("empty"), "boot", "empty", "empty answer"),
    "all in the reasoning": (Fault("reasoning only"), "boot", "reasoning-only", "all of it is in the reasoning"),
    "invalid UTF-8": (Fault("utf-8"), "boot", "utf-8", "invalid UTF-8"),
    "another language": (Fault("drift"), "boot", "drift", "Han letters"),
    "garbage": (Fault("garbage"), "smoke", None, "does not say"),
    "broken JSON": (Fault("broken json"), "smoke", None, "not JSON"),
    "truncated arguments": (Fault("broken arguments"), "tools", "arguments", "are no JSON"),
    "no calls": (Fault("no call"), "tools", None, "no call, where get_weather belongs"),
    "ids of another kind": (Fault("other ids"), "tools", None, "is not functions.NAME:INDEX"),
    "leaked tokens": (Fault("leak", over_tokens=40), "boot", "leak", "<|tool_calls_section_begin|>"),
    "prompts cut quietly": (Fault("truncate", over_tokens=1_200), "context", None, "it cut them"),
    "garbage beyond 1,200 tokens": (Fault("garbage", over_tokens=1_200), "context", None, "says "),
    "!!!! beyond 1,200 tokens": (Fault("flood", over_tokens=1_200), "context", "flood", "a flood of '!'"),
    "garbage in a full cache": (Fault("garbage", over_usage=0.9), "context", None, "says "),
    "dies": (Fault("disconnect", after_requests=12), "smoke", None, "cannot be reached"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found_in_its_rung(name: str) -> None:
    fault, rung, guard, reason = FAULTS[name]
    failed = told(climb(tiny(fault)))
    assert failed, "nothing was noticed"
    assert {item[0] for item in failed} == {rung}
    assert any(guard in (item[3], None) and reason in item[2] for item in failed), failed


def test_counts_are_checked_without_a_tokenizer_too() -> None:
    evidence = climb(tiny(has_tokenizer=False), to="boot")
    assert evidence.passed
    assert "adds" in next(item.reason for item in evidence.observations if item.check == "token count")


def test_a_full_cache_is_really_full() -> None:
    """The scripted pool holds one request; the gauge must have seen over 90 % of it."""
    evidence = climb(tiny(), to="context")
    full = [item for item in evidence.observations if item.check == "full cache"]
    assert full
    assert all(item.verdict == "passed" and item.measured["cache_usage"] > 0.9 for item in full)


def test_a_cache_that_cannot_be_filled_is_said_so() -> None:
    evidence = climb(tiny(pool_tokens=4_096 * 75), to="context")
    full = [item for item in evidence.observations if item.check == "full cache"]
    assert {item.verdict for item in full} == {"unsupported"}
    assert "more would be needed at once" in full[0].reason


RARE = 0.005


@pytest.mark.parametrize("kind", ["broken json", "broken arguments"])
def test_a_rare_fault_takes_the_samples_that_are_stated(kind: str) -> None:
    """0.5 % of answers: 598 samples see it with 95 %. Structured answers are asked as often as that takes."""
    needed = samples_to_see(RARE)
    assert needed == 598
    prompts = prompt_set("tiny")
    rows = [row for row in prompts.smoke if row.check == "json"] if kind == "broken json" else prompts.dialogues
    times = -(-needed // (len(rows) * (1 if kind == "broken json" else 2)))
    rung = "smoke" if kind == "broken json" else "tools"
    found = 0
    for seed in range(3):
        engine = tiny(Fault(kind, rate=RARE), seed=seed)  # type: ignore[arg-type]
        found += any(item[0] == rung for item in told(climb(engine, to=rung, samples=times)))
    assert found >= 2, f"found in {found} of 3 climbs of {needed} samples"


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_clean_engines_raise_no_alarm(count: int) -> None:
    for seed in range(count):
        evidence = climb(tiny(seed=seed), to="context")
        assert evidence.passed, told(evidence)


def test_a_budget_leaves_out_and_says_so() -> None:
    evidence = climb(real(), budget_seconds=0.0)
    left_out = [item for item in evidence.observations if item.verdict == "skipped"]
    assert {item.rung for item in left_out} >= {"smoke", "tools", "context"}
    assert all(item.reason for item in left_out)
    assert not {item.rung for item in evidence.observations if item.verdict == "passed"} - {"boot"}

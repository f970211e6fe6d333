"""The report loses nothing: the strongest evidence of each rung, and every climb below it."""

from __future__ import annotations

from typing import Any

from upright.evidence.report.rung_history import rung_runs, strongest
from upright.facts.records.evidence import Evidence, Observation

OURS, OTHER = "recipe:aa", "recipe:bb"


def seen(rung: str, check: str, verdict: str = "passed", *, recipe: str = OURS, at: int = 1) -> Observation:
    frame: dict[str, Any] = {"reason": "", "seconds": 0, "request": {}, "response": None, "probe": check}
    when = f"2026-11-15T{at:02}:00:00Z"
    return Observation.model_validate(
        {**frame, "rung": rung, "check": check, "verdict": verdict, "subject": recipe, "at": when}
    )


def climb(*observations: Observation) -> Evidence:
    return Evidence(deployment="d", engine=None, engine_version=None, to_rung="x", observations=observations)


def test_a_soak_that_passed_is_still_there_after_a_later_climb() -> None:
    earlier = [seen("smoke", "a"), seen("smoke", "b"), seen("soak", "errors", at=2)]
    later = [seen("smoke", "a", at=3), seen("smoke", "b", at=3)]
    proof = strongest(climb(*later), rung_runs([*earlier, *later]), OURS)
    assert proof is not None
    assert [(item.rung, item.at[11:13]) for item in proof.observations] == [
        ("smoke", "03"), ("smoke", "03"), ("soak", "02"),
    ]  # fmt: skip


def test_a_later_failure_is_never_hidden_and_a_shorter_look_hides_nothing() -> None:
    whole, cut, failed = (
        [seen("smoke", "a"), seen("smoke", "b")],
        [seen("smoke", "a", at=2), seen("smoke", "b", "skipped", at=2)],
        [seen("smoke", "a", "failed", at=3)],
    )
    proof = strongest(climb(*cut), rung_runs([*whole, *cut]), OURS)
    assert proof is not None
    assert [item.at[11:13] for item in proof.observations] == ["01", "01"]
    proof = strongest(climb(*failed), rung_runs([*whole, *cut, *failed]), OURS)
    assert proof is not None
    assert not proof.passed


def test_what_another_recipe_proved_is_history_and_no_proof() -> None:
    before, now = [seen("soak", "errors", recipe=OTHER)], [seen("smoke", "a", at=2)]
    history = rung_runs([*before, *now])
    assert [(look.rung, look.recipe, look.verdict) for look in history] == [
        ("soak", OTHER, "passed"), ("smoke", OURS, "passed"),
    ]  # fmt: skip
    proof = strongest(climb(*now), history, OURS)
    assert proof is not None
    assert proof.rungs == ("smoke",)


def test_an_interrupted_look_that_went_on_is_one() -> None:
    first, second = [seen("smoke", "a")], [seen("smoke", "b", at=2)]
    assert [(look.passed, look.at[11:13]) for look in rung_runs([*first, *second])] == [(2, "02")]

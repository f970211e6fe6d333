"""Rungs on a page: questions with their answers, what was only seen, and a soak over time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from upright.evidence.report.markdown import _missing
from upright.evidence.report.page import verdict
from upright.evidence.report.views import ladder
from upright.facts.records.evidence import NOT_RUN, Evidence, Observation


def seen(rung: str, check: str, **fields: Any) -> Observation:
    usual: dict[str, Any] = {"verdict": "passed", "reason": "as it should be", "request": {}, "response": None}
    return Observation(rung=rung, check=check, at="2026-11-15T00:00:00Z", seconds=1.0, **{**usual, **fields})


def test_a_rung_shows_questions_or_what_was_seen() -> None:
    asked = {"messages": [{"role": "user", "content": "What is 1 + 1?"}]}
    memory = {"over_time": [[10.0, 2**20], [20.0, 2**21], [30.0, 2**22]]}
    latency = {"over_time": [[10.0, 0.1], [20.0, 0.2]]}
    evidence = Evidence(
        deployment="x",
        engine=None,
        engine_version=None,
        to_rung="soak",
        observations=(
            seen("smoke", "arithmetic", request=asked),
            seen("soak", "errors"),
            seen("soak", "latency", response=latency),
            seen("soak", "engine memory", response=memory),
            seen("soak", "host memory", response=memory),
        ),
    )
    smoke, soak = ladder(evidence, draw=True)
    assert (smoke.asks, smoke.charts) == (True, [])
    assert not soak.asks
    assert [chart.title for chart in soak.charts] == ["Time of an answer, ms", "Memory that the engine made, MiB"]
    assert ladder(evidence)[1].charts == []


def test_what_this_machine_could_not_check_stands_beside_what_passed() -> None:
    missing = seen("smoke", "code", verdict="skipped", reason=f"{NOT_RUN}no isolation for generated code (x)")
    checks = (seen("smoke", "arithmetic"), missing, seen("tools", "auto"))
    evidence = Evidence(deployment="x", engine=None, engine_version=None, to_rung="tools", observations=checks)
    smoke, tools = ladder(evidence)
    assert (smoke.verdict, smoke.passed, smoke.total, smoke.not_run) == ("passed", 1, 2, 1)
    assert (_missing(smoke), _missing(tools)) == (", 1 not run", "")
    assert verdict(SimpleNamespace(proof=evidence)) == (  # type: ignore[arg-type]
        "passed",
        "It stands: 2 of 3 checks passed, the last of them in tools; 1 not run",
    )

"""The rung `soak`: what it says of a load that was seen, and of a scripted engine over HTTP."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.scripted.engine import Fault, ScriptedEngine
from upright.base.errors import LaunchError
from upright.facts.records.evidence import Observation
from upright.proof.benchmark.load import Arrivals
from upright.proof.ladder import prove
from upright.proof.ladder.ladder import planned_schedule
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import DeploymentControl, ProofContext, ProofOptions, ProofTarget, SoakOptions
from upright.proof.ladder.rungs.soak import RUNG
from upright.proof.ladder.soak_load import SoakedRequest, SoakResult
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch.footprint import Footprint, FootprintMeter

TINY = prompt_set("tiny")
GIB = 1024**3


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A soak of seconds looks at its machine often enough, and does not wait for a restart that takes no time."""
    for name, seconds in (("_LEAST_LOOK_SECONDS", 0.02), ("_SLICE_SECONDS", 0.3), ("_BEFORE_RESTART_SECONDS", 0.1)):
        monkeypatch.setattr(f"upright.proof.ladder.soak_load.{name}", seconds)


def machine(
    at: float,
    *,
    engine_rate: float = 0,
    kernel_rate: float = 0,
    kernel_until: float = 1e9,
    busy_after: float | None = None,
    busy: float = 0.0,
) -> Footprint:
    """What is read at that second: memory that grows by so many bytes a second, others that work from then on, or all
    the time with so many of the processors."""
    busy = busy * at + (max(0.0, at - busy_after) if busy_after is not None else 0.0)
    return Footprint(
        processes=1, engine_bytes=int(GIB + engine_rate * at), kernel_bytes=int(kernel_rate * min(at, kernel_until)),
        others_bytes=GIB, available_bytes=10 * GIB, engine_seconds=at, busy_seconds=at + busy, processors=2,
    )  # fmt: skip


def judged(made: SoakResult) -> dict[str, Observation]:
    """What the rung says of a load that was seen."""
    keeper = DeploymentControl(lambda: pytest.fail("it was looked at"), lambda: pytest.fail("it was restarted"))
    target = ProofTarget("scripted", "server:0", context_tokens=1024, keeper=keeper)
    stand = ProofContext(target, Endpoint("http://nobody", "x"), ProofOptions(prompts=TINY))
    stand.notes["soak"] = made
    return {probe.name: probe.ask(stand) for probe in RUNG.probes(stand)}


def minutes(count: int = 1, *, slower: float = 0.0, wrong_after: float = 1e9, **grown: float | None) -> SoakResult:
    """So many of ten answers a second, looked at twice a second."""
    chance = random.Random(7)
    made = SoakResult(users=2, text_tokens=512, questions=14, steady_seconds=60 * count)
    for number in range(600 * count):
        at = number / 10
        seconds = 0.1 * (1 + slower * at / 60) * chance.lognormvariate(0, 0.2)
        made.steady.append(SoakedRequest(at, f"{number % 14}", seconds, 0.05, None, None, at > wrong_after))
    made.warm = [each._replace(wrong=False) for each in made.steady[:28]]
    made.looks = [(look / 2, machine(look / 2, **grown)) for look in range(120 * count)]  # type: ignore[arg-type]
    return made


def failed(seen: dict[str, Observation]) -> dict[str, str]:
    return {check: item.reason for check, item in seen.items() if item.verdict == "failed"}


def test_a_sound_minute_passes_and_says_what_it_could_have_seen() -> None:
    seen = judged(minutes())
    assert failed(seen) == {}
    assert "1.2 % would have been found (95 % sure)" in seen["errors"].reason
    assert "an hour would have been found" in seen["engine memory"].reason


@pytest.mark.parametrize(
    ("lasts", "grows", "check"), [(1, "engine_rate", "engine memory"), (2, "kernel_rate", "host memory")]
)
def test_memory_that_grows_is_found(lasts: int, grows: str, check: str) -> None:
    seen = judged(minutes(lasts, **{grows: 1e6}))
    assert list(failed(seen)) == [check]
    assert "used up in" in seen[check].reason
    assert seen[check].measured["bytes_per_hour"] == pytest.approx(3.6e9, rel=0.01)


@pytest.mark.parametrize(("lasts", "verdict"), [(1, "skipped"), (2, "passed")])
def test_connections_that_the_kernel_remembers_for_a_minute_are_no_leak(lasts: int, verdict: str) -> None:
    host = judged(minutes(lasts, kernel_rate=1e6, kernel_until=60))["host memory"]
    assert host.verdict == verdict
    assert ("closed connections for 1 min; after that, 0 looks are too few" in host.reason) == (lasts == 1)


def test_looks_with_a_long_pause_between_them_are_not_called_few() -> None:
    paused = minutes(engine_rate=1e6)
    paused.looks = [(at, look) for at, look in paused.looks if not 20 <= at < 45]
    memory = judged(paused)["engine memory"]
    assert memory.verdict == "skipped"
    assert memory.reason == "56 looks came too unevenly, once 26 s apart: was the machine too busy?"


def test_growth_that_would_last_for_weeks_is_told_and_no_failure() -> None:
    seen = judged(minutes(engine_rate=1e3))
    assert failed(seen) == {}
    assert seen["engine memory"].measured["bytes_per_hour"] == pytest.approx(3.6e6, rel=0.01)


@pytest.mark.parametrize(
    ("others", "verdict", "why"),
    [
        ({}, "failed", "(1.28 to 2.07)"),
        ({"busy_after": 30.0}, "skipped", "but other programs took more of the processors"),
        ({"busy": 0.96}, "skipped", "but hardly a processor was idle, and other programs had 48 % of them"),
        ({"busy": 0.7}, "failed", "(1.28 to 2.07)"),
    ],
    ids=["alone", "others came", "a full machine", "room for all"],
)
def test_answers_that_slow_down_are_found_unless_others_explain_it(
    others: dict[str, float], verdict: str, why: str
) -> None:
    seen = judged(minutes(slower=1.0, **others))
    assert seen["latency"].verdict == verdict
    assert "times as long" in seen["latency"].reason
    assert seen["latency"].reason.endswith(why)


@pytest.mark.parametrize(("stalled", "verdict"), [(1.0, "passed"), (60.0, "skipped")])
def test_answers_that_vary_too_much_pass_for_nothing(stalled: float, verdict: str) -> None:
    """Interval and factor are not shown where they say nothing."""
    made = minutes()
    made.steady = [seen._replace(seconds=seen.seconds * (stalled if 45 < seen.at < 52 else 1)) for seen in made.steady]
    latency = judged(made)["latency"]
    assert latency.verdict == verdict
    assert ("would have been found" in latency.reason) == (verdict == "passed")
    assert ("factor" in latency.measured) == (verdict == "passed")


def test_answers_with_a_pause_among_them_are_not_called_few() -> None:
    made = minutes()
    made.steady = [seen for seen in made.steady if not 15 < seen.at < 50]
    latency = judged(made)["latency"]
    assert (latency.verdict, latency.reason) == ("skipped", "251 answers came too unevenly to tell a start from an end")


@pytest.mark.parametrize("after", [1.0, 45.0])
def test_answers_that_turn_wrong_are_found(after: float) -> None:
    assert list(failed(judged(minutes(wrong_after=after)))) == ["answers"]


def soaked(
    engine: ScriptedEngine, restart: Callable[[], None] | None = None, seconds: float = 1.5, users: int = 2
) -> dict[str, Observation]:
    meter = SimpleNamespace(read=lambda: machine(time.perf_counter()))
    keeper = DeploymentControl(lambda: cast(FootprintMeter, meter), restart) if restart else None
    with engine.serving() as url, Endpoint(url, engine.model) as endpoint:
        target = ProofTarget("scripted", "server:0", context_tokens=1024, users=users, keeper=keeper)
        evidence = prove(target, endpoint, TINY, rungs=["soak"], soak=SoakOptions(seconds))
    return {seen.check: seen for seen in evidence.observations}


def test_a_sound_engine_passes() -> None:
    seen = soaked(ScriptedEngine(TINY), lambda: None)
    assert failed(seen) == {}
    assert list(seen) == ["errors", "answers", "latency", "engine memory", "host memory", "restart"]
    assert seen["answers"].measured["wrong_first"] == 0
    assert seen["restart"].measured["asked_after"] == 2 * len(questions()), "one more round of each user"


def questions() -> list[str]:
    assert TINY.needles is not None
    quick = [row for row in TINY.smoke if row.rule != "code" and not row.enforce_schema]
    return [*map(str, TINY.needles.depths), *(row.ask for row in quick)]


def test_a_server_of_somebody_else_is_loaded_and_neither_measured_nor_restarted() -> None:
    seen = soaked(ScriptedEngine(TINY), seconds=0.5)
    assert failed(seen) == {}
    assert {seen[check].verdict for check in ("engine memory", "host memory", "restart")} == {"skipped"}


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        (Fault("flood", rate=0.3), "answers", "flood"),
        (Fault("cut", rate=0.3), "errors", "no finish_reason"),
        (Fault("no usage", rate=0.3), "errors", "no usage"),
        (Fault("disconnect", after_requests=4), "errors", "reset"),
    ],
)
def test_a_fault_is_found(fault: Fault, check: str, words: str) -> None:
    seen = soaked(ScriptedEngine(TINY, fault=fault, seed=1), seconds=1)
    assert words in failed(seen)[check]


class _Hangs(ScriptedEngine):
    """From that time on it takes every request, and says nothing."""

    since: float = math.inf

    def _chat(self, body: dict[str, Any]) -> tuple[int, bytes | None, str]:
        if time.perf_counter() < self.since:
            return super()._chat(body)
        time.sleep(2)
        return 200, None, ""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short texts, and times as they are to one another: patience is four times what a load allows by itself."""
    loads = partial(Arrivals, grace_seconds=0.125)
    for name, value in (("_PATIENCE_SECONDS", 0.5), ("_TEXT_SHARE", 0.0), ("Arrivals", loads)):
        monkeypatch.setattr(f"upright.proof.ladder.soak_load.{name}", value)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("users", [1, 2])
@pytest.mark.parametrize("after", [0.1, 0.7], ids=["in the first round", "later"])
def test_an_engine_that_falls_silent_is_found(after: float, users: int) -> None:
    engine = _Hangs(TINY)
    engine.since = time.perf_counter() + after
    errors = soaked(engine, seconds=1, users=users)["errors"]
    assert errors.verdict == "failed", errors.reason
    assert re.match(r"it fell silent after \d+ answers?: stalled \(", errors.reason)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_request_that_is_left_without_an_end_by_a_restart_is_found() -> None:
    engine = _Hangs(TINY)

    def restart() -> None:
        engine.since = 0
        time.sleep(0.2)
        engine.since = math.inf

    assert "requests that it was answering were left without an end" in failed(soaked(engine, restart))["restart"]


@pytest.mark.usefixtures("impatient")
def test_a_slow_engine_is_let_finish_what_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last answers come long after the end of the load, and are whole."""
    monkeypatch.setattr("upright.proof.ladder.soak_load._PATIENCE_SECONDS", 5.0)
    seen = soaked(ScriptedEngine(TINY, delay_seconds=0.4), seconds=0.5)
    assert failed(seen) == {}
    assert seen["errors"].reason.startswith("none of ")
    assert "cut" not in seen["errors"].reason


def test_an_engine_that_does_not_come_back_is_named() -> None:
    def restart() -> None:
        raise LaunchError("tiny-kimi did not come up: no memory left")

    seen = soaked(ScriptedEngine(TINY), restart, seconds=0.5)
    assert failed(seen) == {"restart": "it did not come back: tiny-kimi did not come up: no memory left"}


@pytest.mark.slow
def test_an_engine_that_is_broken_after_its_restart_is_named() -> None:
    engine = ScriptedEngine(TINY)

    def restart() -> None:
        engine.fault = Fault("no finish")

    assert "requests failed after it was back" in failed(soaked(engine, restart, seconds=0.5))["restart"]


def test_its_time_is_part_of_the_schedule() -> None:
    options = ProofOptions("soak", ("boot", "soak"), TINY, budget_seconds=50, soak=SoakOptions(60))
    chosen = planned_schedule(options, rates=(1e4, 100))
    soaks = [(each.group.name, each.runs, each.seconds) for each in chosen if each.group.rung == "soak"]
    assert soaks == [("load", True, 25)], "it was asked for: it gets what the budget has, not nothing"

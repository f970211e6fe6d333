"""The estimate is a pure function: these are published figures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from upright.proof.ladder.detectable_rates import rate_ruled_out, samples_to_see
from upright.proof.ladder.estimating import EarlierTiming, Group, ProbeCost, Rates, choose, witnessed_total
from upright.proof.ladder.ladder import planned_schedule
from upright.proof.ladder.rung import ProofOptions
from upright.proof.ladder.rungs.context import notice_prefix_cache


def test_the_two_gpu_box_of_the_seeds_in_half_an_hour() -> None:
    """300 tokens a second read, 19.57 written: the whole walk fits, 14,707 tokens of endurance do not."""
    schedule = planned_schedule(ProofOptions("task", budget_seconds=1800, context_tokens=262_144), rates=(300, 19.57))
    runs = {f"{each.group.rung} {each.group.name}": each.runs for each in schedule}
    assert [name for name, does in runs.items() if not does] == ["endurance 14707 tokens"]
    assert runs["context 262,144 tokens"]
    assert runs["task files"]
    takes = {each.group.name: each.seconds for each in schedule if each.group.rung in ("context", "endurance")}
    assert takes["65,536 tokens"] == pytest.approx(65_536 / 300, rel=0.05)
    assert takes["262,144 tokens"] == pytest.approx(131_072 / 300, rel=0.05), "the first half is cached"
    assert takes["14707 tokens"] == pytest.approx(14_707 / 19.57, rel=0.01)
    total = sum(each.seconds or 0 for each in schedule if each.runs)
    assert total <= 1800


def test_a_shorter_budget_ends_the_walk_earlier_and_keeps_the_task() -> None:
    schedule = planned_schedule(ProofOptions("task", budget_seconds=570, context_tokens=262_144), rates=(300, 19.57))
    out = [each.group.name for each in schedule if not each.runs]
    assert out == ["98,304 tokens", "131,072 tokens", "262,144 tokens", "full cache", "14707 tokens"]
    reasons = {each.group.name: each.reason for each in schedule}
    assert "of the budget are left" in reasons["98,304 tokens"]
    assert reasons["full cache"] == "comes after a shorter one that was left out"


def test_without_rates_nothing_is_claimed() -> None:
    schedule = planned_schedule(ProofOptions("context", budget_seconds=60, context_tokens=65_536), rates=None)
    assert {each.seconds for each in schedule if each.group.cost.prompt_tokens} == {None}
    assert all(each.runs for each in schedule)


def test_a_dear_group_leaves_room_for_a_cheap_one() -> None:
    groups = [Group("a", "dear", ProbeCost(seconds=50)), Group("a", "cheap", ProbeCost(seconds=5))]
    assert [each.runs for each in choose(groups, Rates(), 10)] == [False, True]
    assert [each.runs for each in choose(groups, Rates(), None)] == [True, True]


@pytest.mark.parametrize(("rate", "samples"), [(0.005, 598), (0.01, 299), (0.05, 59), (0.5, 5), (1, 1)])
def test_how_many_samples_show_a_fault(rate: float, samples: int) -> None:
    assert samples_to_see(rate) == samples
    assert rate_ruled_out(samples) <= rate
    assert samples == 1 or rate_ruled_out(samples - 1) > rate


def test_a_person_is_told_only_what_has_a_basis() -> None:
    """An answer's length is nobody's to know; a prompt at a measured rate is."""
    rates = Rates()
    rates.learn(prefill=1000, decode=20, prompt_tokens=20_000)
    read, write = Group("context", "65,536 tokens", ProbeCost(65_536, 16)), Group("smoke", "code", ProbeCost(64, 400))
    far = Group("context", "262,144 tokens", ProbeCost(262_144, 16))
    assert [each.told_seconds for each in choose([read, write, far], rates, None)] == [
        pytest.approx(66.3, abs=0.1),
        None,
        None,
    ]
    assert witnessed_total(choose([read, write], rates, None)) is None
    assert witnessed_total(choose([read], rates, None)) == pytest.approx(66.3, abs=0.1)


def test_what_a_rung_took_here_before_is_the_estimate() -> None:
    """A soak said 8 min 44 s and took 22; smoke said 10 min for 23 s."""
    rates = Rates()
    rates.learn(prefill=1000, decode=2, prompt_tokens=2_000)
    smoke = [Group("smoke", "language", ProbeCost(64, 400), 3), Group("smoke", "json", ProbeCost(64, 400), 2)]
    soak = [Group("soak", "load", ProbeCost(seconds=600), 6)]
    known = {"smoke": EarlierTiming(5, 23.0), "soak": EarlierTiming(6, 1320.0, 600.0)}
    assert witnessed_total(choose(smoke, rates, None, known)) == 23
    assert witnessed_total(choose([*smoke, *soak], rates, None, known)) == 1343
    longer = [Group("soak", "load", ProbeCost(seconds=3600), 6)]
    assert witnessed_total(choose(longer, rates, None, known)) is None
    assert witnessed_total(choose([*smoke, Group("smoke", "more", ProbeCost(64, 400))], rates, None, known)) is None
    assert witnessed_total([]) is None


def test_a_prompt_is_told_up_to_four_times_the_one_that_was_measured() -> None:
    rates = Rates()
    rates.learn(prefill=100, decode=10, prompt_tokens=1000)
    assert rates.witnessed(ProbeCost(prompt_tokens=4000)) == 40
    assert rates.witnessed(ProbeCost(prompt_tokens=4001)) is None
    assert rates.witnessed(ProbeCost(prompt_tokens=1000, answer_tokens=100)) is None, "mostly an answer"


def test_where_no_prefix_is_kept_a_text_is_read_for_every_question() -> None:
    """vLLM on a CPU took 217 s of a proof's 115: four questions on 8,192 tokens were counted as one reading."""
    rates = Rates()
    rates.learn(prefill=400, decode=40, prompt_tokens=4096)
    first = ProbeCost(prompt_tokens=4096, answer_tokens=8, shared_tokens=4096)
    walk = sum((ProbeCost(prompt_tokens=64, answer_tokens=8, shared_tokens=8192) for _ in range(3)), first)
    assert rates.seconds(walk) == pytest.approx(11.5, abs=0.1)
    rates.reads_again = True
    assert rates.seconds(walk) == pytest.approx(83.2, abs=0.1)
    assert rates.witnessed(walk) is not None


@pytest.mark.parametrize(
    ("second", "cached", "again"), [(4.1, None, True), (2.5, 0.0, True), (0.3, None, False), (4.1, 2000.0, False)]
)
def test_the_second_question_on_a_text_tells(second: float, cached: float | None, again: bool) -> None:
    rates, notes = Rates(), dict[str, object]()
    stand = SimpleNamespace(rates=rates, notes=notes)
    for seconds in (4.0, second):
        measured = {"first_seconds": seconds} | ({"cached_tokens": cached} if cached is not None else {})
        seen = SimpleNamespace(measured=measured, response={})
        notice_prefix_cache(stand, seen, 2048)  # type: ignore[arg-type]
    assert rates.reads_again is again

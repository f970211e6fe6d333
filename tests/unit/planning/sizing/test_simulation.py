"""The simulation against arithmetic by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from upright.base.errors import UsageError
from upright.planning.choosing.routing import RouterPolicy
from upright.planning.sizing.outcome import Histogram, SimulationOutcome
from upright.planning.sizing.router import cache_aware
from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.simulation import simulate
from upright.planning.sizing.usage import Habit, Usage

SERVICE = Service(
    step_seconds=((1, 0.01), (4, 0.02)),
    prompt_token_seconds=0.001,
    step_prompt_tokens=100,
    pool_tokens=100_000,
    streams=8,
)
USAGE = Usage(
    shared_tokens=0,
    opening_tokens=Habit(1000),
    turn_tokens=Habit(100),
    answer_tokens=Habit(101),
    turns=Habit(1),
    tool_seconds=Habit(1),
    thinking_seconds=Habit(10),
    turns_a_request=1,
    longest_tokens=32_768,
)
SETTING = SimulationSetting(SERVICE, USAGE, boxes=1, users=1, seconds=1000.0)


@dataclass
class _Waiting:
    load: int
    up: bool = True
    sent: int = 0


def test_one_user_alone_sees_the_bare_times() -> None:
    outcome = simulate(SETTING)
    # 1,000 prompt tokens at 1 ms each; then 100 more tokens at 10 ms.
    assert outcome.first_token_seconds.mean == pytest.approx(1.0)
    assert outcome.tokens_per_second.mean == pytest.approx(100.0)
    # A turn and its pause take 1 + 1 + 10 seconds.
    assert outcome.turns == pytest.approx(1000 / 12, abs=1.5)
    assert outcome.busy == pytest.approx(2 / 12, rel=0.03)


def test_a_step_is_a_straight_line_between_what_was_measured() -> None:
    assert SERVICE.decode_seconds(0) == 0
    assert SERVICE.decode_seconds(1) == pytest.approx(0.01)
    assert SERVICE.decode_seconds(2) == pytest.approx(0.01 + 0.01 / 3)
    assert SERVICE.decode_seconds(7) == pytest.approx(0.03)  # the last line goes on


def test_a_long_prompt_costs_more_for_each_token() -> None:
    longer = replace(SERVICE, prompt_square_seconds=1e-6)
    assert longer.read_seconds(0, 1000) == pytest.approx(1.0 + 0.5)
    assert longer.read_seconds(1000, 2000) == pytest.approx(1.0 + 1.5)
    assert longer.scaled(2).read_seconds(0, 1000) == pytest.approx(3.0)


@pytest.mark.parametrize(
    "change",
    [
        {"step_seconds": ()},
        {"step_seconds": ((4, 0.02), (1, 0.01))},
        {"step_seconds": ((1, 0.0),)},
        {"step_prompt_tokens": 0},
        {"pool_tokens": 0},
        {"streams": 0},
    ],
)
def test_a_curve_without_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        replace(SERVICE, **change)


def test_whoever_comes_in_the_middle_of_a_step_waits_for_its_end() -> None:
    """Two streams: the second one's prompt goes with the next whole step, not with a part of one."""
    slow = Service(((1, 1.0), (2, 1.0)), 0.0, 1000, 100_000, 64)
    once = replace(USAGE, opening_tokens=Habit(10), answer_tokens=Habit(100))
    outcome = simulate(SimulationSetting(slow, once, boxes=1, users=0, arrivals_per_second=0.05, seconds=9000.0))
    # Alone the first token comes at once (a prompt of no cost); in company at the end of a step and of one's own.
    assert 1.0 < (outcome.first_token_seconds.quantile(0.9) or 0) <= 2.05


def test_prompts_share_a_step_up_to_its_size() -> None:
    both = replace(SERVICE, prompt_token_seconds=0.001, step_prompt_tokens=2000, prompt_step_seconds=0.5)
    one = simulate(replace(SETTING, service=both))
    assert one.first_token_seconds.mean == pytest.approx(1.5)


def test_a_step_that_decodes_takes_prompts_along_without_starting_twice() -> None:
    """The second comes when the first one's prompt is read: its prompt goes with a decoding step of a second."""
    slow = Service(((1, 1.0), (2, 1.0)), 0.001, 1000, 100_000, 64, prompt_step_seconds=1.0)
    once = replace(USAGE, opening_tokens=Habit(1000), answer_tokens=Habit(10))
    outcome = simulate(SimulationSetting(slow, once, boxes=1, users=0, seconds=100.0, trace=((0.0, 0), (2.0, 0))))
    assert outcome.first_token_seconds.quantile(0.0) == pytest.approx(2.0, rel=0.03)
    assert outcome.first_token_seconds.quantile(1.0) == pytest.approx(2.0, rel=0.03)
    assert outcome.last_seconds == pytest.approx(2 + 2 + 9)


def test_a_second_turn_reads_only_what_is_new() -> None:
    outcome = simulate(replace(SETTING, usage=replace(USAGE, turns=Habit(2)), seconds=2400.0, warm_up_seconds=50.0))
    # Turn one reads 1,000 tokens; turn two 1,201, of which 1,101 are cached.
    assert outcome.reused == pytest.approx(1101 / 2201, rel=0.02)
    assert outcome.first_token_seconds.quantile(0.25) == pytest.approx(0.1, rel=0.02)
    assert outcome.first_token_seconds.quantile(0.75) == pytest.approx(1.0, rel=0.02)
    assert outcome.reread_tokens == 0


def test_an_answer_that_does_not_stay_is_read_again() -> None:
    usage = replace(USAGE, turns=Habit(2), answers_stay=False)
    outcome = simulate(replace(SETTING, usage=usage, seconds=2400.0, warm_up_seconds=50.0))
    assert outcome.reused == pytest.approx(1000 / 2201, rel=0.02)


def test_without_affinity_a_conversation_reads_its_prefix_again() -> None:
    many = replace(SETTING, usage=replace(USAGE, turns=Habit(10)), boxes=8, users=8, warm_up_seconds=200.0)
    kept, lost = simulate(many), simulate(replace(many, routing="random"))
    assert (kept.reused or 0) > 0.8
    assert kept.reread_tokens == 0
    assert (lost.reused or 0) < 0.5 < lost.reread_tokens / lost.prompt_tokens * 2


def test_agents_that_begin_alike_meet_on_one_box_unless_the_threshold_is_above_what_they_share() -> None:
    """At half of a prompt whoever begins goes where the last one went, for ever."""
    talks = Usage(1200, Habit(200), Habit(20), Habit(20), Habit(20), Habit(0), Habit(30), 1, 100_000)
    setting = replace(SETTING, usage=talks, boxes=3, users=0, arrivals_per_second=0.01, seconds=20_000.0)
    shares = {}
    for threshold in (0.5, 0.9):
        outcome = simulate(replace(setting, router=RouterPolicy("cache_aware", "", threshold)))
        shares[threshold] = max(outcome.sent_by_box.values()) / sum(outcome.sent_by_box.values())
        assert outcome.reread_tokens == 0
    assert shares[0.9] < 0.4
    assert shares[0.5] == 1


def test_a_turn_that_adds_more_than_the_threshold_leaves_goes_elsewhere_and_is_read_again() -> None:
    talks = replace(USAGE, turns=Habit(2), turn_tokens=Habit(2000))
    setting = replace(SETTING, usage=talks, boxes=3, users=9, seconds=20_000.0, warm_up_seconds=500.0)
    stays, leaves = (
        simulate(replace(setting, router=RouterPolicy("cache_aware", "", threshold))) for threshold in (0.2, 0.9)
    )
    assert stays.reread_tokens == 0 < leaves.reread_tokens
    assert leaves.first_token_seconds.mean > stays.first_token_seconds.mean


def test_a_box_that_is_too_full_is_left_though_it_knows_the_turn() -> None:
    full, free = _Waiting(load=12), _Waiting(load=0)
    policy = RouterPolicy("cache_aware", "", 0.5, spill_requests=2)
    known = {"known_at": full, "known_tokens": 90, "prompt_tokens": 100}
    assert cache_aware([full, free], policy, **known) is free
    assert cache_aware([full, free], replace(policy, spill_requests=8), **known) is free, "mean 6, swing 4.9"
    full.load = 3
    assert cache_aware([full, free], policy, **known) is full
    full.up = free.up = False
    assert cache_aware([full, free], policy, **known) is None


def test_round_robin_comes_back_to_the_box_that_has_an_older_prefix() -> None:
    many = replace(SETTING, usage=replace(USAGE, turns=Habit(20)), boxes=2, users=1)
    found = simulate(replace(many, routing="round-robin"))
    assert 0.5 < (found.reused or 0) < 0.95  # two turns old at least, never the whole


def test_a_small_cache_forgets_and_makes_people_wait() -> None:
    talks = replace(SETTING, users=6, usage=replace(USAGE, turns=Habit(10)), warm_up_seconds=50.0)
    roomy, tight = simulate(talks), simulate(replace(talks, service=replace(SERVICE, pool_tokens=2500)))
    assert tight.reused_tokens < roomy.reused_tokens
    assert tight.reread_tokens > 0 == roomy.reread_tokens
    assert tight.waited_for_room > 0 == roomy.waited_for_room
    assert (tight.first_token_seconds.mean or 0) > (roomy.first_token_seconds.mean or 0)


def test_a_full_engine_makes_people_wait_for_a_stream() -> None:
    full = simulate(replace(SETTING, users=20, service=replace(SERVICE, streams=2)))
    assert full.waited_for_stream > 0 == full.waited_for_room


def test_a_conversation_that_passes_the_context_starts_anew() -> None:
    short = replace(USAGE, turns=Habit(1000), longest_tokens=3000)
    outcome = simulate(replace(SETTING, usage=short, seconds=5000.0))
    assert outcome.turns > 100
    assert outcome.prompt_tokens / outcome.turns < 3000


def test_a_trace_is_replayed_where_it_was_written() -> None:
    trace = ((0.0, 0), (0.5, 1), (0.5, 1))
    outcome = simulate(replace(SETTING, boxes=2, users=0, usage=replace(USAGE, turns=Habit(2)), trace=trace))
    assert outcome.turns == 6
    # Alone a prompt takes a second; the third waits for the second one, whose tokens then go with its steps.
    assert outcome.first_token_seconds.quantile(1.0) == pytest.approx(2.1, rel=0.03)
    assert outcome.last_seconds == pytest.approx(16, abs=2)


def test_a_failing_box_cuts_its_own_streams_and_the_rest_goes_on() -> None:
    steady = simulate(replace(SETTING, boxes=4, users=16, seconds=20_000.0))
    shaky = simulate(
        replace(SETTING, boxes=4, users=16, seconds=20_000.0, hours_between_failures=0.5, repair_seconds=120.0)
    )
    assert steady.cut == steady.failures == 0
    assert 20 < shaky.failures < 70  # 4 boxes, 5.6 hours, one in half an hour each
    assert shaky.cut > 0
    assert shaky.turns > 0.85 * steady.turns


def test_the_box_with_most_to_lose_fails_when_it_is_said_and_comes_back() -> None:
    setting = replace(SETTING, boxes=2, users=24, seconds=2_000.0, fails_at_seconds=1_000.0)
    gone, back = simulate(replace(setting, repair_seconds=1e9)), simulate(replace(setting, repair_seconds=60.0))
    assert gone.failures == back.failures == 1
    assert gone.cut == back.cut > 0
    assert gone.busy < back.busy


def test_all_boxes_down_is_waited_out() -> None:
    outcome = simulate(replace(SETTING, seconds=20_000.0, hours_between_failures=0.2, repair_seconds=60.0))
    assert outcome.failures > 5
    assert outcome.turns > 500


def test_an_agent_pauses_for_tools_and_a_person_for_thought() -> None:
    agent = replace(USAGE, turns_a_request=10, tool_seconds=Habit(1), thinking_seconds=Habit(100))
    assert agent.mean_pause_seconds == pytest.approx(10.9)
    assert sum(agent.pauses(1000)) / 1000 == pytest.approx(10.9)


def test_the_same_seed_gives_the_same_answer() -> None:
    varied = replace(SETTING, users=5, usage=replace(USAGE, answer_tokens=Habit(100, 1.0)))
    first, second = simulate(varied), simulate(varied)
    assert (first.turns, first.answered_tokens, first.events) == (second.turns, second.answered_tokens, second.events)
    assert simulate(replace(varied, seed=1)).answered_tokens != first.answered_tokens


def test_parts_of_a_fleet_add_up() -> None:
    varied = replace(SETTING, users=3, usage=replace(USAGE, thinking_seconds=Habit(10, 0.5)), seconds=4000.0)
    whole = SimulationOutcome()
    for seed in (1, 2):
        whole.merge(simulate(replace(varied, seed=seed)))
    alone = simulate(replace(varied, seed=1))
    assert whole.boxes == 2
    assert whole.turns == pytest.approx(2 * alone.turns, rel=0.1)
    assert whole.simulated_seconds == alone.simulated_seconds
    assert whole.busy == pytest.approx(alone.busy, rel=0.1)


def test_a_histogram_is_right_to_one_per_cent() -> None:
    seen = Histogram()
    for number in range(1, 10_001):
        seen.add(number / 100)
    assert seen.quantile(0.5) == pytest.approx(50, rel=0.02)
    assert seen.quantile(0.95) == pytest.approx(95, rel=0.02)
    assert seen.mean == pytest.approx(50.005)
    assert len(seen.bins) < 500
    assert Histogram().quantile(0.5) is None
    assert Histogram().mean is None

"""From what is known of a box to a number of boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from upright.base.errors import UprightError, UsageError
from upright.engines.llamacpp import flags as llamacpp
from upright.facts import catalog
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.benchmark import Cell, Machine, Shape, Spread
from upright.facts.records.box import Box
from upright.facts.records.loading import load
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.sizing import Sizing
from upright.planning.choosing import plan
from upright.planning.choosing.artifacts import artifact_choice
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named
from upright.planning.sizing.answer import ServingBox, best_configuration, curve_of, sizing
from upright.planning.sizing.capacity import (
    ServiceDemand,
    ServiceObjective,
    sampling_error,
    simulate_in_parts,
    size,
    spares,
    trial,
)
from upright.planning.sizing.costs import costs, unused_prices
from upright.planning.sizing.deck import DECK, Deck, at_least_one
from upright.planning.sizing.measured_service import measured_service
from upright.planning.sizing.planned_service import planned_service
from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.simulation import simulate
from upright.planning.sizing.usage import Habit
from upright.planning.sizing.usage_figures import NAMES, usage_figures, usage_of

SERVICE = Service(((1, 0.02), (16, 0.05)), 1 / 4000, 2048, 400_000, 16, prompt_step_seconds=0.02)


def row(name: str = "coding-agent") -> UsageRow:
    found = catalog.get("usages", name)
    assert isinstance(found, UsageRow)
    return found


def demand(users: int, promise: ServiceObjective | None = None) -> ServiceDemand:
    figures = usage_figures(row(), {})
    return ServiceDemand(users, usage_of(row(), figures, 65_536), promise or ServiceObjective(), turns=2_000)


def test_the_fewest_boxes_keep_the_promise_and_one_fewer_does_not() -> None:
    tried: list[tuple[int, bool]] = []
    found = size(demand(120), SERVICE, on_trial=lambda boxes, kept: tried.append((boxes, kept)))
    assert found is not None
    assert found.boxes > 1
    assert not ServiceObjective().broken(found.outcome)
    assert found.fewer is not None
    assert found.broken
    assert (found.boxes, True) in tried
    assert (found.boxes - 1, False) in tried


def test_more_people_never_need_fewer_boxes() -> None:
    counts = [found.boxes for users in (10, 80) if (found := size(demand(users), SERVICE))]
    assert len(counts) == 2
    assert counts == sorted(counts)


def test_a_promise_that_one_user_alone_breaks_has_no_answer() -> None:
    assert size(demand(5, ServiceObjective(tokens_per_second=1000)), SERVICE) is None
    assert size(demand(5, ServiceObjective(first_token_seconds=0.01)), SERVICE) is None


def test_a_large_fleet_is_simulated_in_part() -> None:
    found = size(demand(4_000), SERVICE)
    assert found is not None
    assert found.boxes > 60 > found.simulated_boxes == found.outcome.boxes
    per_box = 4_000 / found.boxes
    few = size(demand(100), SERVICE)
    assert few is not None
    assert per_box == pytest.approx(100 / few.boxes, rel=0.4)  # a small fleet has no law of large numbers


def test_spares_follow_the_binomial() -> None:
    assert spares(1, 6335, 14_400) == spares(2, 6335, 14_400) == 0  # asked for, not compulsory
    assert spares(3, 6335, 14_400) == 1
    assert spares(4, 6335, 14_400) == 1
    # 10,000 boxes, 6.3 of them down on average; Poisson's 99.9 % is 15.
    assert spares(10_000, 6335, 14_400) == pytest.approx(15, abs=1)
    assert spares(4, 24, 14_400) > 2
    assert spares(4, 24, 0) == 1
    assert spares(2_000, 4, 14_400) == pytest.approx(2_000 + 3.09 * math.sqrt(4_000 / 4) * 2, rel=0.02)  # half are down


def test_parts_of_a_fleet_are_the_fleet() -> None:
    usage = demand(1).usage
    setting = SimulationSetting(SERVICE, usage, boxes=12, users=240, seconds=1500.0, warm_up_seconds=500.0)
    whole, dealt = simulate(setting), simulate_in_parts(setting, 3, lambda parts: map(simulate, parts))
    assert dealt.boxes == whole.boxes == 12
    assert dealt.turns == pytest.approx(whole.turns, rel=0.1)
    assert dealt.busy == pytest.approx(whole.busy, rel=0.1)


@pytest.mark.parametrize("name", ["coding-agent", "chat", "batch", "long-documents"])
def test_every_use_has_its_habits_each_with_a_basis(name: str) -> None:
    figures = usage_figures(row(name), {})
    assert set(figures) == set(NAMES)
    assert all(figure.basis in ("catalog", "assumed") and figure.source for figure in figures.values())
    outcome = trial(ServiceDemand(4, usage_of(row(name), figures, 65_536), ServiceObjective(), turns=500), SERVICE, 1)
    assert outcome.turns > 100


def test_the_spread_of_a_habit_is_told_by_mean_and_median() -> None:
    usage = usage_of(row(), usage_figures(row(), {"answer_tokens": 1046.0}), 65_536)
    fact = row().answer_tokens
    assert fact.value
    assert fact.median
    assert usage.answer_tokens.mean == 1046.0  # what is said, with the row's spread
    assert usage.answer_tokens.sigma == pytest.approx(math.sqrt(2 * math.log(fact.value / fact.median)))
    assert usage.shared_tokens == 12_000
    assert usage_of(row(), usage_figures(row(), {}), 8_192).shared_tokens == 4_096  # half of a short context at most


def test_a_habit_that_is_none_is_refused_with_the_near_one() -> None:
    with pytest.raises(UsageError) as caught:
        usage_figures(row(), {"thinking": 3})
    assert caught.value.hint == "did you mean thinking_seconds?"
    with pytest.raises(UsageError):
        usage_figures(row(), {"turns": 0})


def planned(box: str = "hgx-b200", goal: Goal | None = None, name: str = "kimi-k2.6") -> tuple[Plan, Model, Box]:
    machine, model = catalog.box_record(box), artifact_choice(name, lambda _: None).model  # type: ignore[arg-type, return-value]
    return plan(machine, model, goal or Goal())[0], model, machine


def test_a_planned_curve_is_the_plans_own_speed() -> None:
    made, model, machine = planned("8x-rtx-pro-6000-server")
    found = planned_service(made, model, machine)
    assert made.speed is not None
    assert 1 / found.service.decode_seconds(1) == pytest.approx(made.speed.empty.best, rel=0.01)
    half = made.context_tokens // 2
    assert made.speed.prompt is not None
    assert half / found.service.read_seconds(0, half) == pytest.approx(made.speed.prompt.best, rel=0.1)
    at_half = found.service.decode_seconds(1) + found.service.cached_token_seconds * half
    assert 1 / at_half == pytest.approx(made.speed.decode.best, rel=0.1)
    assert found.fast.decode_seconds(1) < found.service.decode_seconds(1) < found.slow.decode_seconds(1)
    assert found.slow.pool_tokens == made.kv.low_tokens < found.service.pool_tokens


def test_what_prompts_take_is_assumed_where_no_prefill_was_measured() -> None:
    unmeasured = planned("hgx-h200", Goal(engine="sglang"), "minimax-m2.5")
    assert unmeasured[0].speed.prompt is None  # type: ignore[union-attr]
    assert "no prefill of its own was measured on such boxes" in planned_service(*unmeasured).notes[-1]
    assert not planned_service(*planned("8x-rtx-pro-6000-server")).notes


@pytest.mark.parametrize("box", ["8x-mi300x", "4x-rtx-a6000", "hgx-h200", "strix-halo", "1x-rtx-3060-ti"])
@pytest.mark.parametrize("name", ["gpt-oss-20b", "qwen3.6-27b", "deepseek-v4-flash"])
def test_nothing_is_simulated_whose_speed_a_plan_does_not_know(box: str, name: str) -> None:
    ram = 32 if box == "1x-rtx-3060-ti" else None  # whose bandwidth is assumed
    machine, chosen = box_named(NamedBox(box, ram)), artifacts_of(name)
    made = plan(machine, chosen.model, Goal(), choose_from=chosen.choose_from)[0]
    artifact = next(each for each in (chosen.model, *chosen.choose_from) if each.name == made.model)
    if not made.fits:
        return
    if made.speed is None:
        with pytest.raises(UprightError, match="is not known"):
            planned_service(made, artifact, machine)
        return
    found, rate = planned_service(made, artifact, machine), made.speed.empty
    assert 1 / found.service.decode_seconds(1) == pytest.approx(rate.best, rel=0.02)
    assert 1 / found.slow.decode_seconds(1) <= 1.1 * rate.low
    assert 1 / found.fast.decode_seconds(1) >= 0.9 * rate.high


@pytest.mark.parametrize("context", [1000, 4000, 4096, 4100, 9000])
def test_a_short_context_reads_as_fast_as_the_same_prompt_of_a_long_one(context: int) -> None:
    short, long = (planned_service(*planned(goal=Goal(context_tokens=tokens))).service for tokens in (context, 65_536))
    assert short.read_seconds(0, 1000) == pytest.approx(long.read_seconds(0, 1000), rel=0.05)


def test_llamacpp_is_simulated_with_the_slots_that_it_is_started_with() -> None:
    machine, chosen = box_named(NamedBox("4x-rtx-pro-6000-workstation", 768, 358)), artifacts_of("kimi-k2.6")
    made = plan(machine, chosen.model, Goal(engine="llama.cpp", users=3), choose_from=chosen.choose_from)[0]
    artifact = next(each for each in chosen.choose_from if each.name == made.model)
    found = planned_service(made, artifact, machine)
    flags = {each.name: each.value for each in llamacpp.memory_settings(made)}
    for service in (found.service, found.fast, found.slow):
        assert str(service.streams) == flags["--parallel"] == "3"
        assert str(service.pool_tokens) == flags["--ctx-size"]
    assert made.largest_context_tokens > found.service.pool_tokens  # more would fit, and is not asked for
    assert "for each stream, whatever else would fit" in found.notes[0]


@pytest.mark.parametrize(("box", "told"), [("hgx-b200", True), ("8x-rtx-pro-6000-server", False)])
def test_a_shared_cache_that_nobody_measured_is_said_to_be_assumed(box: str, told: bool) -> None:
    machine, chosen = box_named(NamedBox(box)), artifacts_of("kimi-k2.6")
    shared, own = (plan(machine, chosen.model, Goal(decode_context_parallel=ranks))[0] for ranks in (8, 1))
    assert (
        any("no measurement on such boxes" in words for words in planned_service(shared, chosen.model, machine).notes)
        is told
    )
    assert not any("share" in words for words in planned_service(own, chosen.model, machine).notes)


def test_a_prompt_that_is_read_before_it_came_is_refused() -> None:
    with pytest.raises(UsageError, match="less than no time"):
        replace(SERVICE, prompt_token_seconds=-1e-6)


def test_a_sizing_says_what_binds_and_what_it_rests_on() -> None:
    figures = usage_figures(row(), {})
    serving = ServingBox(SERVICE, curve_of(SERVICE, basis="measured", why="by hand"), 65_536)
    made = sizing(demand(60), "coding-agent", serving, figures)
    assert made is not None
    assert made.binds != "nothing"
    assert made.fewer is not None
    assert made.fewer.boxes == made.boxes - 1
    assert made.failing.boxes == made.boxes + made.spares
    assert made.failing.failures == 1
    assert made.failing.cut > 0
    assert made.failing.first_token_p95_seconds > trial_p95(made.failing.boxes)
    assert made.low_boxes == made.boxes == made.high_boxes
    assert made.usage["turns"].basis == "catalog"
    assert load(made.to_json(), Sizing) == made


def trial_p95(boxes: int) -> float:
    return trial(demand(60), SERVICE, boxes).first_token_seconds.quantile(0.95) or 0.0


def way(at_once: int, **fields: float) -> ServingBox:
    service = replace(SERVICE, **fields)  # type: ignore[arg-type]
    return ServingBox(service, curve_of(service, basis="derived", why="by hand"), 65_536, at_once=at_once)


def test_the_way_that_needs_the_fewest_boxes_is_taken() -> None:
    tight, roomy, slow = way(1, pool_tokens=120_000), way(2), way(4, prompt_token_seconds=1 / 100)
    heard: list[str] = []
    chosen, found = best_configuration(
        demand(60), [tight, roomy, slow, tight], on_trial=lambda what, *_: heard.append(what)
    )
    assert chosen is roomy
    assert found is not None
    assert found.boxes == size(demand(60), roomy.service).boxes < size(demand(60), tight.service).boxes  # type: ignore[union-attr]
    rough = [f"planned for {count} at once, roughly" for count in (1, 2, 4)]
    assert [what for what in heard if "roughly" in what] == [rough[0], rough[1], rough[0]], "of one there is no size"
    assert heard[-1] == "planned for 2 at once"
    assert best_configuration(demand(60), [roomy, tight])[0] is roomy
    never = way(1, prompt_token_seconds=1.0)
    assert best_configuration(demand(60), [never]) == (never, None)
    assert best_configuration(demand(60), [never, roomy])[0] is roomy


def test_one_box_ends_the_search() -> None:
    def ways() -> Iterator[ServingBox]:
        yield way(1)
        pytest.fail("nothing is better than one box")

    _, found = best_configuration(demand(2), ways())
    assert found is not None
    assert found.boxes == 1


def test_boxes_that_fail_often_are_down_as_often_as_the_spares_count_on() -> None:
    figures = usage_figures(row(), {"hours_between_failures": 4.0})  # and four hours of repair: half are down
    serving = ServingBox(SERVICE, curve_of(SERVICE, basis="measured", why="by hand"), 65_536)
    made = sizing(demand(60), "coding-agent", serving, figures)
    assert made is not None
    assert made.spares_why.startswith(f"{(made.boxes + made.spares) / 2:.1f} boxes are down on average")


def test_a_small_cache_binds_where_there_is_time() -> None:
    figures = usage_figures(row(), {})
    tight = replace(SERVICE, pool_tokens=120_000, prompt_token_seconds=1 / 8000)
    made = sizing(
        demand(30), "coding-agent", ServingBox(tight, curve_of(tight, basis="measured", why="by hand"), 65_536), figures
    )
    assert made is not None
    assert made.binds == "kv-pool"
    assert "cache" in made.binds_why


def test_watts_and_money_say_their_arithmetic() -> None:
    box = catalog.box_record("8x-rtx-pro-6000-workstation")
    found = {cost.name: cost for cost in costs(5, 20, box, {"hour": 14, "kwh": 0.3, "box": 90_000}, 800)}
    assert found["watts at full load"].value == 5 * (8 * 600 + 800)
    assert found["rent a month"].value == 5 * 14 * 730
    assert found["energy a month"].value == pytest.approx(28 * 730 * 0.3)
    assert found["purchase"].value == 450_000
    assert found["a month and user"].value == pytest.approx((5 * 14 * 730 + 28 * 730 * 0.3) / 20)
    assert "at most" in found["energy a month"].why
    assert "not counted" in costs(1, 1, box, {}, None)[0].why
    gpus_alone = {cost.name: cost for cost in costs(1, 1, box, {"kwh": 1}, None)}
    assert "at most" not in gpus_alone["energy a month"].why
    assert unused_prices(box, {"kwh": 1}, 500) == ()


def test_what_was_said_in_vain_is_named() -> None:
    assert costs(1, 1, None, {"kwh": 1}, 500) == []
    assert unused_prices(None, {"kwh": 1, "hour": 3}, 500) == ("--price kwh", "--host-watts")
    assert unused_prices(None, {"hour": 3}, None) == ()


@pytest.mark.parametrize("mean", [1.5, 20.0, 600.0, 3000.0])
@pytest.mark.parametrize("name", ["thinking_seconds", "tool_seconds", "turns", "answer_tokens"])
def test_the_mean_that_is_said_is_the_mean_that_is_drawn(name: str, mean: float) -> None:
    """thinking_seconds=600 drew 357: what was cut at an hour was not given back."""
    habit = getattr(usage_of(row(), usage_figures(row(), {name: mean}), 65_536), name)
    assert sum(habit.steps(4096)) / 4096 == pytest.approx(mean, rel=1e-6)
    whole = Deck(at_least_one(habit.steps(DECK), mean), Random(1))
    assert sum(whole.whole() for _ in range(10 * DECK)) / (10 * DECK) == pytest.approx(mean, rel=0.01)
    if name == "answer_tokens":  # drawn one by one, not dealt
        drawn = [habit.draw(random) for random in [Random(2)] for _ in range(400_000)]
        assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.01)


def test_a_pause_that_is_met_is_a_long_one() -> None:
    deck = Deck(Habit(100, 1.0).steps(DECK), Random(1))
    met = deck.met(5000)
    assert sum(met) / len(met) == pytest.approx(100 * math.e, rel=0.03)  # E[X^2] / E[X] of a log-normal


def law_settings() -> Iterator[tuple[str, dict[str, float], int]]:
    """Boxes that are busy for 4 to 95 % of their time."""
    for name, users in (("coding-agent", (20, 60)), ("chat", (20, 60, 150)), ("long-documents", (20, 60))):
        for said in ({}, {"thinking_seconds": 600.0}, {"answer_tokens": 200.0}):
            for count in users:
                yield name, said, count


@pytest.mark.parametrize(("name", "said", "users"), list(law_settings()))
def test_the_interactive_law_holds(name: str, said: dict[str, float], users: int) -> None:
    """X = N / (Z + R), whatever the box does: a start that is not the steady state shows here as too much load."""
    usage = usage_of(row(name), usage_figures(row(name), said), 65_536)
    cycle = usage.mean_pause_seconds + 10
    outcome = simulate(
        SimulationSetting(SERVICE, usage, 4, users, cycle * 16_000 / users, warm_up_seconds=cycle, settle_seconds=cycle)
    )
    answer = outcome.answer_seconds / outcome.turns
    law = users / (usage.mean_pause_seconds + answer)
    assert outcome.turns / outcome.simulated_seconds == pytest.approx(law, rel=0.02)


@pytest.mark.parametrize(
    ("name", "rises"),
    [
        ("thinking_seconds", False), ("turn_tokens", True),
        *(pytest.param(name, rises, marks=pytest.mark.slow) for name, rises in (
            ("tool_seconds", False), ("opening_tokens", True), ("answer_tokens", True), ("turns_a_request", True),
        )),
    ],
)  # fmt: skip
def test_more_of_a_habit_never_needs_boxes_the_other_way(name: str, rises: bool) -> None:
    """Where the cache holds everybody: else whoever pauses for longer finds less of it, and may well need more."""
    value = usage_figures(row(), {})[name].value or 1.0
    roomy = replace(SERVICE, pool_tokens=20_000_000)
    counts = []
    for factor in (0.25, 1.0, 4.0):
        figures = usage_figures(row(), {name: float(value) * factor})
        answer = size(ServiceDemand(100, usage_of(row(), figures, 65_536), ServiceObjective()), roomy)
        counts.append(answer.boxes if answer else math.inf)
    assert counts == sorted(counts, reverse=not rises), (name, counts)


@pytest.mark.slow
def test_a_part_of_a_fleet_states_its_error_and_exact_has_none() -> None:
    small = ServiceDemand(3_000, demand(1).usage, ServiceObjective(), turns=1_500)
    part = size(small, SERVICE)
    assert part is not None
    error = sampling_error(small, SERVICE, part)
    assert part.simulated_boxes < part.boxes
    exact = size(replace(small, exact=True), SERVICE, near=part.boxes)
    assert exact is not None
    assert exact.simulated_boxes == exact.boxes
    assert sampling_error(replace(small, exact=True), SERVICE, exact) == 0
    assert abs(exact.boxes - part.boxes) <= 2 * max(1, error)


def benched(service: Service, streams: int, prompt: int, output: int) -> Cell:
    """What a benchmark would measure of a box that serves so: a closed loop, by simulation."""
    usage = replace(
        usage_of(row("batch"), usage_figures(row("batch"), {}), 10**6),
        shared_tokens=0,
        opening_tokens=Habit(prompt),
        answer_tokens=Habit(output),
        thinking_seconds=Habit(0),
    )
    seen = simulate(SimulationSetting(service, usage, boxes=1, users=streams, seconds=400.0, warm_up_seconds=50.0))

    def spread(value: float | None) -> Spread:
        assert value is not None
        return Spread(count=9, mean=value, low=value, p50=value, p90=value, p99=value, high=value)

    rate = seen.tokens_per_second.mean
    assert rate is not None
    return Cell(
        run="r", workload="short", api="chat", at="", seconds=400, sent=seen.turns, succeeded=seen.turns,
        shape=Shape(prompt_tokens=prompt, output_tokens=output, concurrency=streams, requests=seen.turns),
        in_flight_mean=streams, in_flight_peak=streams, prompt_tokens=spread(prompt), output_tokens=spread(output),
        ttft_seconds=spread(seen.first_token_seconds.mean), tpot_seconds=spread(1 / rate),
        machine=Machine(program="test", version=None),
    )  # fmt: skip


def test_a_curve_is_told_by_the_cells_of_a_benchmark() -> None:
    """The way there and back: cells of a box that is known tell the box."""
    true = Service(
        ((1, 0.02), (16, 0.05)), 1 / 4000, 2048, 10**6, 16, cached_token_seconds=2e-7, prompt_step_seconds=0.02,
        answer_seconds=0.01,
    )  # fmt: skip
    cells = [benched(true, streams, prompt, 200) for streams in (1, 4, 16) for prompt in (256, 4096)]
    found = measured_service(cells, pool_tokens=10**6, streams=16, step_prompt_tokens=2048)
    assert found.service.prompt_token_seconds == pytest.approx(true.prompt_token_seconds, rel=0.05)
    assert found.service.prompt_step_seconds + found.service.answer_seconds == pytest.approx(0.03, rel=0.1)
    for streams in (1, 4, 16):
        assert found.service.decode_seconds(streams) == pytest.approx(true.decode_seconds(streams), rel=0.1)
    assert found.service.cached_token_seconds == pytest.approx(2e-7, rel=0.3)
    assert "6 cells of r" in found.why
    assert found.notes == ()
    alone = measured_service(cells[:1], pool_tokens=10**6, streams=None, step_prompt_tokens=2048)
    assert len(alone.notes) == 3  # one length of prompt, one of context, one stream
    with pytest.raises(UprightError, match="cache holds"):
        measured_service(cells, pool_tokens=None, streams=None, step_prompt_tokens=2048)


def test_the_gap_in_the_middle_is_a_step_without_prompts() -> None:
    """Few of its steps carried somebody's prompt, and these took long: the mean says more than the step took."""

    def spread(value: float, count: int = 9, mean: float | None = None) -> Spread:
        return Spread(count=count, mean=mean or value, low=value, p50=value, p90=value, p99=value, high=value)

    one = benched(Service(((1, 0.02),), 1 / 4000, 2048, 10**6, 16, prompt_step_seconds=0.02), 1, 256, 100)
    many = one.model_copy(
        update={
            "in_flight_mean": 8.0, "in_flight_peak": 8, "succeeded": 10, "tpot_seconds": spread(0.09),
            "itl_seconds": spread(0.03, count=990, mean=0.09),
        }
    )  # fmt: skip
    found = measured_service([one, many], pool_tokens=10**6, streams=8, step_prompt_tokens=2048)
    assert found.service.decode_seconds(8) == pytest.approx(0.03)
    guessed = many.model_copy(update={"itl_seconds": spread(0.03, count=330)})  # pieces of three tokens
    found = measured_service([one, guessed], pool_tokens=10**6, streams=8, step_prompt_tokens=2048)
    assert found.service.decode_seconds(8) == pytest.approx(found.service.decode_seconds(1))  # never less than with one


def test_no_cell_with_one_request_tells_no_curve() -> None:
    with pytest.raises(UprightError):
        measured_service([], pool_tokens=1, streams=1, step_prompt_tokens=512)

"""The rule by which a way is chosen: each step alone, a total order, and what must hold of every box."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from upright.facts import catalog
from upright.facts.catalog.rows.model import Fidelity
from upright.facts.records.plan import ExpertPlace, Goal, Objection, Rate, Seconds, Speed, Turn
from upright.planning.choosing.rule import Way, floor_tokens_per_second, ordered
from upright.planning.choosing.table import Table
from upright.planning.requests.library import artifact_choice_for
from upright.planning.speed.prefill_reach import SIBLINGS

BOX = catalog.box_record("2x-rtx-3090")
BASE = Table(BOX).ways(
    artifact_choice_for("gpt-oss-20b").model, Goal(engine="llama.cpp"), artifact_choice_for("gpt-oss-20b").choose_from
)[0]


def speed(best: float | None, low: float = 0.8, high: float = 1.2, prompt: float | None = 2000.0) -> Speed | None:
    if best is None:
        return None
    rate = Rate(best=best, low=low * best, high=high * best)
    read = None if prompt is None else Rate(best=prompt, low=prompt / 2, high=prompt * 2)
    rates = {"decode": rate, "empty": rate, "full": rate, "together": rate, "prompt": read}
    return BASE.plan.speed.model_copy(update={**rates, "prompt_why": None, "turns": ()})


def way(
    name: str,
    tok_s: float | None = 50,
    *,
    level="native",
    size=100,
    prompt=2000.0,
    band=(0.8, 1.2),
    host=False,
    warm=None,
    engine="llama.cpp",
    **update,
) -> Way:
    places = (ExpertPlace(device="host", layers=(1,)),) if host else ()
    plan = BASE.plan.model_copy(
        update={
            "objections": (),
            "engine": engine,
            "speed": with_turn(speed(tok_s, *band, prompt=prompt), warm)
            if warm
            else speed(tok_s, *band, prompt=prompt),
            "expert_places": places,
            **update,
        }
    )
    artifact = SimpleNamespace(
        tensor_bytes=size, source=name, name=name, architecture=BASE.artifact.architecture, quantisation=None
    )
    return Way(plan, artifact, BOX, Fidelity(level=level, source="a test"))


def with_turn(found: Speed | None, most: float | None) -> Speed | None:
    """By siblings, and a turn of at most so many seconds."""
    if found is None or most is None:
        return found
    first, warm = Seconds(best=9, low=5, high=20), Seconds(best=most / 2, low=most / 4, high=most)
    turn = Turn(users=1, first_answer=first, warm=warm, full_context=first, basis="derived")
    return found.model_copy(update={"turns": (turn,), "prompt_why": f"{SIBLINGS}: prefills/a"})


def names(*ways: Way) -> list[str]:
    return [one.artifact.source for one in ordered(ways)]


NO = (Objection(code="does-not-fit", message="too large", short_bytes=1),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (way("fits", 21, level="lossy"), way("does not fit", 500, objections=NO)),
        (way("below the floor", 10), way("lost much, above it", 90, level="lossy")),
        (way("above the floor", 21, level="near"), way("below it", 19)),
        (way("read within a minute", prompt=400, level="near"), way("read in two", prompt=150)),
        (way("near", None, level="near"), way("lost much", 90, level="lossy")),
        (way("known", 25, level="near"), way("not known", None)),
        (way("on the GPUs", 30, level="near", prompt=None), way("in system RAM", 60, prompt=None, host=True)),
        (way("on the GPUs, as near", 30, level="near"), way("in system RAM, by siblings", 60, host=True, warm=20.0)),
        (way("in RAM, soon", 30, level="near", host=True, warm=28.0), way("in RAM, late", 60, host=True, warm=29.0)),
        (way("equal", 30, level="equal"), way("near", 90, level="near")),
        (way("larger", 50, size=200), way("smaller", 70)),
        (way("smaller", 90), way("larger", 50, size=200)),
        (way("faster", 90, engine="ik_llama.cpp"), way("better proved", 50)),
        (way("better proved", 80), way("faster, in its band", 90, engine="ik_llama.cpp")),
        (way("native", 50), way("equal, as large and as fast", 51, level="equal")),
    ],
    ids=lambda one: one.artifact.source,
)
def test_each_step(first, second):
    assert names(first, second) == names(second, first) == [first.artifact.source, second.artifact.source]


def test_the_order_is_total_and_does_not_depend_on_the_order_of_the_rows():
    draw = random.Random(7)
    ways = [
        way(f"w{n}", draw.choice([None, *range(10, 100, 7)]), level=draw.choice(["native", "equal", "near", "lossy"]),
            size=draw.choice([100, 105, 180, 300]), prompt=draw.choice([None, 300.0, 3000.0]), host=draw.random() < 0.3,
            engine=draw.choice(["llama.cpp", "ik_llama.cpp"]), objections=draw.choice([(), (), NO]))
        for n in range(60)
    ]  # fmt: skip
    expected = names(*ways)
    assert sorted(expected) == sorted(one.artifact.source for one in ways)
    for _ in range(20):
        draw.shuffle(ways)
        assert names(*ways) == expected
    fits = [one.plan.fits for one in ordered(ways)]
    assert fits == sorted(fits, reverse=True)


def test_the_floor_is_the_use_or_what_was_asked():
    assert floor_tokens_per_second(Goal()) == 20
    assert floor_tokens_per_second(Goal(use="batch")) == 0
    assert floor_tokens_per_second(Goal(minimum_tokens_per_second=35)) == 35


def test_a_way_that_is_left_out_could_not_have_come_first():
    """Builds are planned only while one could still be the best."""
    for box, model in (
        ("2x-rtx-3090", "qwen3.6-27b"),
        ("8x-rtx-pro-6000-server", "kimi-k2.6"),
        ("1x-rtx-5090", "qwen3-32b"),
    ):
        choice, table = artifact_choice_for(model), Table(catalog.box_record(box))
        few = table.ways(choice.model, Goal(), choice.choose_from)
        every = table.ways(choice.model, Goal(), choice.choose_from, every=True)
        assert len(few) <= len(every)
        assert (few[0].plan, few[0].artifact) == (every[0].plan, every[0].artifact)

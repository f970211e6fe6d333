"""Every model of the catalogue on every box with every engine and the settings of its tuning steps: no recipe that any
row forbids.

What a plan offers, `render` must be able to write. In the quick run pairs of (model, kind of box), each with an engine
and a setting in turn; the whole crossing is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

import pytest

from upright.engines import ENGINES
from upright.engines.constraints import breaches, recipe_situation
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions

SETTINGS: tuple[dict[str, object], ...] = (
    {},
    {"context_tokens": 131_072},
    {"context_tokens": 1_048_576},
    {"draft": True},
    {"memory_fraction": 0.94},
    {"users": 16},
    {"decode_context_parallel": 8},
    {"kv_dtype": "fp8"},
    {"expert_parallel": True},
    {"use": "batch"},
)
Combination = tuple[str, str, str, int]
LEAST_QUICK, LEAST_WHOLE = 200, 15_000


def test_a_pairwise_sample_offers_nothing_that_a_row_forbids(capsys: pytest.CaptureFixture[str]) -> None:
    combinations = list(pairwise())
    counts = crossed(combinations)
    with capsys.disabled():
        print(f"\ncrossing, pairwise: {told(counts)}")
    assert len(combinations) >= LEAST_QUICK


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_crossing_offers_nothing_that_a_row_forbids(capsys: pytest.CaptureFixture[str]) -> None:
    models, boxes = (sorted(catalog.rows(kind)) for kind in ("models", "boxes"))
    combinations = list(product(models, boxes, ENGINES, range(len(SETTINGS))))
    counts = crossed(combinations)
    with capsys.disabled():
        print(f"\ncrossing, whole: {told(counts)}")
    assert len(combinations) >= LEAST_WHOLE


def pairwise() -> Iterator[Combination]:
    """Every model with a third of the kinds of boxes and every kind with a third of the models; engines and settings go
    round, so that they meet all of both."""
    kinds: dict[tuple[object, ...], str] = {}
    for row in catalog.boxes():
        box = catalog.box_record(row.id)
        gpu = box.gpus[0] if box.gpus else None
        kinds.setdefault((gpu and gpu.compute_capability, gpu and gpu.memory_bytes.value, len(box.gpus)), row.id)
    turns = cycle(product(ENGINES, range(len(SETTINGS))))
    pairs = product(enumerate(sorted(catalog.rows("models"))), enumerate(kinds.values()))
    for (row, model), (column, box_name) in pairs:
        if (row + column) % 3 == 0:
            engine, setting = next(turns)
            yield model, box_name, engine, setting
            next(turns)


def crossed(combinations: list[Combination]) -> dict[str, int]:
    counts = {"combinations": 0, "plans": 0, "fit": 0, "recipes": 0}
    for model_name, box_name, engine, setting in combinations:
        counts["combinations"] += 1
        goal, box = Goal(engine=engine, **SETTINGS[setting]), catalog.box_record(box_name)
        for model in _records(model_name):
            if model.format not in ENGINES[engine].loads:
                continue
            for made in plan(box, model, goal)[:2]:
                counts["plans"] += 1
                counts["fit"] += made.fits
                counts["recipes"] += _holds(made, model, box_name)
    return counts


def _holds(made: Plan, model: Model, box_name: str) -> int:
    if not made.fits:
        return 0
    box = catalog.box_record(box_name)
    recipe = render(made, model, box, model_path="weights", port=8000, wishes=RenderOptions(must_be_installed=False))
    situation = recipe_situation(recipe)
    assert situation is not None
    assert [breach.row.id for breach in breaches(situation) if breach.refused] == []
    return 1


_MADE: dict[str, tuple[Model, ...]] = {}


def _records(name: str) -> tuple[Model, ...]:
    """Each kind of file once: artifacts of one scheme divide alike."""
    if name not in _MADE:
        schemes = {(model.format, model.quantisation): model for model in reversed(records(catalog.model(name)))}
        _MADE[name] = tuple(schemes.values())
    return _MADE[name]


def told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())

"""Benchmarks of one box, as input of `fleet size`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from pathlib import Path

from upright.base.errors import UsageError
from upright.engines import has_slots
from upright.facts import store
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.loading import load
from upright.facts.records.recipe import Recipe
from upright.planning.sizing.answer import ServingBox
from upright.planning.sizing.serving_boxes import BoxEvidence, measured_serving_box
from upright.proof.benchmark.bench import saved_benchmarks


def box_evidence(names: Iterable[str], stated: BoxEvidence | None = None) -> BoxEvidence:
    """Of all that are named; what the person states goes before."""
    return reduce(or_, (_evidence(name) for name in names), stated or BoxEvidence())


def measured_box(names: Iterable[str], stated: BoxEvidence) -> ServingBox:
    """How one box serves, as it was measured."""
    return measured_serving_box(box_evidence(names, stated))


def _evidence(text: str) -> BoxEvidence:
    if Path(text).is_file():
        return BoxEvidence((load(Path(text), Benchmark),))
    directory = store.find(text)
    benchmarks = tuple(saved_benchmarks(directory))
    if not benchmarks:
        raise UsageError(f"{text} was never benchmarked", hint=f"upright bench {text} --workload knee")
    recipe = directory.read(Recipe)
    slots = recipe.users if has_slots(recipe.engine) else None
    return BoxEvidence(
        benchmarks,
        context_tokens=recipe.context_tokens,
        streams=slots,
        pool_tokens=recipe.context_tokens * slots if slots else None,
        box=directory.read(Box) if (directory.path / "box.json").exists() else None,
    )

"""A real bundle -> the same with one thing changed, and sealed again: an attacker has our code too."""

from __future__ import annotations

import copy
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from upright.evidence.share.rederiving import derived_figures, headlines_of, ladder_of
from upright.facts.records.base import canonical, digest_of, from_dict
from upright.facts.records.benchmark import Benchmark, Cell
from upright.facts.records.evidence import Evidence

FOLDER = Path(__file__).parents[3] / "recordings/bundles"
RECORDED = sorted(FOLDER.glob("*.json.gz"))
Tree = dict[str, Any]


@cache
def recorded(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def tree(number: int = 1) -> Tree:
    found: Tree = json.loads(recorded(FOLDER / f"{number:02}.json.gz"))
    return found


def encoded(bundle: Tree) -> bytes:
    return canonical(bundle)


def reference(record: Tree) -> str:
    return f"{record['record']}:{record['digest']}"


def seal(bundle: Tree) -> None:
    """Every digest and every parent anew, as `upright share bundle` would have written them."""
    predicate = bundle["predicate"]
    records = predicate["records"]
    for kind in ("box", "model", "recipe"):
        records[kind]["digest"] = digest_of(records[kind])
    recipe = records["recipe"]
    bundle["subject"][0]["digest"]["sha256"] = recipe["digest"]
    records["plan"]["made_from"] = [reference(records["model"]), reference(records["box"])]
    records["plan"]["digest"] = digest_of(records["plan"])
    records["residuals"]["made_from"] = [reference(records["plan"])]
    for observation in records["evidence"]["observations"]:
        observation["subject"] = reference(recipe)
    for benchmark in predicate["benchmarks"]:
        for cell in benchmark["cells"]:
            cell["recipe"] = recipe["digest"]
    for child in (records["evidence"], *predicate["benchmarks"]):
        child["made_from"] = [reference(recipe)]
    for child in (records["residuals"], records["evidence"], *predicate["benchmarks"]):
        child["digest"] = digest_of(child)


def claim_again(bundle: Tree) -> None:
    """Headlines and rungs anew, from whatever the cells and observations now say."""
    predicate = bundle["predicate"]
    benchmarks = [from_dict(Benchmark, benchmark) for benchmark in predicate["benchmarks"]]
    predicate["headlines"] = [headline.model_dump(mode="json") for headline in headlines_of(benchmarks)]
    predicate["ladder"] = ladder_of(from_dict(Evidence, predicate["records"]["evidence"]))


def figures_again(cell: Tree) -> None:
    """The cell's figures anew, from whatever its samples now say."""
    before = Cell.model_validate(cell)
    assert before.samples is not None
    for figure in derived_figures(before, before.samples):
        name, _, part = figure.name.partition(" ")
        if part:
            cell[name][part] = figure.derived
        else:
            cell[name] = figure.derived


def cells(bundle: Tree) -> list[Tree]:
    return [cell for benchmark in bundle["predicate"]["benchmarks"] for cell in benchmark["cells"]]


def scale(bundle: Tree, factor: float) -> None:
    """Every clock of every sample and cell, and every figure that follows."""
    for cell in cells(bundle):
        cell["seconds"] *= factor
        for column in ("sent_us", "first_us", "last_us", "ended_us"):
            cell["samples"][column] = [int(time * factor) for time in cell["samples"][column]]
        figures_again(cell)


def copied(number: int = 1) -> Tree:
    return copy.deepcopy(tree(number))

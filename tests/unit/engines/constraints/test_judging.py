"""Constraint rows: each refuses its own example and nothing near it; what is not known, no row speaks of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from upright.engines.constraints import Situation, breaches
from upright.engines.constraints.situation import _DERIVED
from upright.facts import catalog
from upright.facts.catalog.rows.constraint import ConstraintRow
from upright.facts.records.recipe import Circumstances

ROWS = catalog.constraints()


def situation(row: ConstraintRow) -> Situation:
    """As `broken_by` tells it."""
    facts = dict(row.broken_by)
    version = str(facts.pop("version"))
    settled = {name: facts.pop(name) for name in list(facts) if name in Circumstances.model_fields}
    settings = {name: frozenset(fact) if isinstance(fact, tuple) else fact for name, fact in facts.items()}
    return Situation(row.engine, version, Circumstances.model_validate(settled), settings)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_is_broken_by_its_example(row: ConstraintRow) -> None:
    assert row.id in [breach.row.id for breach in breaches(situation(row))]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_nothing_is_broken_by_what_is_not_known(row: ConstraintRow) -> None:
    told = situation(row)
    without = {name: fact for name, fact in told.settings.items() if name != row.demand.fact}
    about = told.circumstances
    if row.demand.fact in Circumstances.model_fields:
        about = about.model_copy(update={row.demand.fact: None})
    if row.demand.fact in _DERIVED:
        about = about.model_copy(update={"expert_width": None, "kv_heads": None, "experts": None})
        without |= {"tensor": 1, "decode_context": 1}
    quiet = replace(told, circumstances=about, settings=without)
    assert row.id not in [breach.row.id for breach in breaches(quiet)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_says_what_to_do_and_names_rows_that_are_there(row: ConstraintRow) -> None:
    assert row.instead.strip()
    for name in row.rows:
        kind, _, id_ = name.partition("/")
        assert catalog.find(kind, id_) is not None, name


def test_every_compat_row_that_says_no_of_a_setting_binds() -> None:
    """Backends and cache types that a row calls refused or failing are somebody's constraint, or a release's."""
    bound = {name for row in ROWS for name in row.rows}
    by_release = {"MLA prefill", "very large caches with MLA", "sparse MLA", "fp8 KV with dense MLA, right answers"}
    loose = [
        row.id
        for engine in ("vllm", "sglang")
        for row in catalog.compat(engine, patched=False)
        if row.status in ("fails", "refused") and row.feature not in by_release and f"compat/{row.id}" not in bound
    ]
    assert loose == NOT_EMITTED


# Settings that no recipe of ours ever writes: an engine chooses them by itself, or they belong to builds of one's own.
NOT_EMITTED = [
    "vllm-sm12-mla-prefill",
    "vllm-sm121-source-build",
    "vllm-sm12-custom-allreduce",
    "sglang-sm120-allreduce-fusion",
]

"""Users and tokens belong to the placement that the page shows."""

from __future__ import annotations

import pytest

from upright.base.units import GB, GIB
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal
from upright.planning.choosing import plan


def box(name: str) -> Box:
    memory = Figure(value=512 * GIB, basis="assumed", source="test")
    rate = Figure(value=300 * GB, basis="assumed", source="test")
    told = {"memory_bytes": memory, "memory_available_bytes": memory, "memory_bandwidth_bytes_per_second": rate}
    return catalog.box_record(name).model_copy(update=told)


@pytest.mark.parametrize("name", ["4x-rtx-pro-6000-workstation", "2x-rtx-pro-6000-workstation"])
def test_no_user_is_promised_whom_the_shown_experts_leave_no_room(name):
    native, *others = records(catalog.model("kimi-k2.6"))
    best = plan(box(name), native, Goal(), choose_from=others)[0]
    assert best.fits
    assert best.expert_places
    assert best.users_at_context < 20
    for budget in best.budgets:
        lines = [line for line in best.ledger if line.device == budget.device]
        cache = sum(line.bytes for line in lines if line.term == "kv_cache")
        others_bytes = sum(line.bytes for line in lines if line.term != "kv_cache")
        grown = cache * best.kv.low_tokens / best.kv.planned_tokens
        assert others_bytes + grown <= budget.capacity_bytes

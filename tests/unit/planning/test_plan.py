"""Plans on a machine without a GPU."""

from __future__ import annotations

from tests.unit.planning.planning_examples import architecture, box, kimi_attention, model
from upright import Goal
from upright.base.units import GIB
from upright.planning.choosing import plan


def test_a_model_that_fits():
    found, *_ = plan(box(memory_gib=32), model(8))
    assert found.fits
    assert found.engine == "llama.cpp"
    assert found.context_tokens == 65_536
    assert found.kv.bytes_per_token == 70_272
    assert {line.term for line in found.ledger} == {"weights", "kv_cache", "compute", "process"}
    assert found.kv.capacity_tokens >= found.kv.planned_tokens
    assert found.headroom_bytes("host") > 0


def test_the_context_starts_at_what_the_model_has():
    found, *_ = plan(box(), model(1, architecture(context_limit_tokens=8192)))
    assert found.context_tokens == 8192


def test_too_little_memory_is_an_objection_with_bytes_and_a_remedy_that_works():
    small = box(memory_gib=10)
    refused, *_ = plan(small, model(8), Goal(context_tokens=65_536))
    (objection,) = refused.objections
    assert objection.code == "does-not-fit"
    assert objection.short_bytes == refused.high_bytes("host") - 10 * GIB
    option, value = objection.remedy.split()
    assert option == "--context"
    accepted, *_ = plan(small, model(8), Goal(context_tokens=int(value)))
    assert accepted.fits


def test_a_context_beyond_the_models_limit_is_refused():
    found, *_ = plan(box(memory_gib=1000), model(8), Goal(context_tokens=524_288))
    assert [objection.code for objection in found.objections] == ["context-too-long"]


def test_users_multiply_the_cache():
    one, *_ = plan(box(), model(1), Goal(context_tokens=8192))
    four, *_ = plan(box(), model(1), Goal(context_tokens=8192, users=4))
    cache = {p.goal.users: next(line.bytes for line in p.ledger if line.term == "kv_cache") for p in (one, four)}
    assert cache[4] == 4 * cache[1]


def test_the_plan_names_what_it_was_made_from():
    machine, artifact = box(), model(1)
    found, *_ = plan(machine, artifact)
    assert found.made_from == (machine.reference, artifact.reference)


def test_a_small_change_of_the_architecture_changes_the_cache():
    deep, *_ = plan(box(), model(1, architecture(kimi_attention(layers=30))))
    assert deep.kv.bytes_per_token == 30 * 576 * 2

"""What stands beside a plan: the best published result, the trade of DCP, thinking that is turned off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from upright.app.cli.plan import command
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.catalog.published_rates import published_rates
from upright.facts.records.plan import Goal, Plan
from upright.planning.choosing import plan
from upright.planning.choosing.nearest_run import nearest_run
from upright.planning.requests.plan_arguments import NamedBox, make_plan_request
from upright.planning.requests.plan_request import PlannedRequest, plan_request

EIGHT = "8x-rtx-pro-6000-server"


def planned(model: str, box: str, **wishes: Any) -> Plan:
    return plan(catalog.box_record(box), records(catalog.model(model))[0], Goal(**wishes))[0]


def planned_by_name(model: str, box: str) -> PlannedRequest:
    return plan_request(make_plan_request(model, NamedBox(box), Goal(), measured=()))


def note(made: Plan, code: str) -> str | None:
    return next((each.message for each in made.notes if each.code == code), None)


def test_the_nearest_published_run_stands_beside_the_plan():
    """Of one request without a draft at the plan's context, though others were faster."""
    words = note(planned("kimi-k2.6", EIGHT), "nearest-published")
    assert words is not None
    assert words.startswith("nearest published: 73.4 tok/s, 1 request, 32,768 context, vllm-fork, TP8 DCP1, fp8 KV; ")
    assert "rtx6kpro models/kimi-k26" in words
    assert words.endswith("(measurements/m036); not as planned: a fork of vllm, fp8 KV for bf16")


def test_what_is_asked_decides_which_run_is_near():
    eight = note(planned("kimi-k2.6", EIGHT, users=8), "nearest-published") or ""
    assert "8 requests together" in eight
    drafted = note(planned("kimi-k2.6", EIGHT, draft=True, engine="vllm"), "nearest-published") or ""
    assert "EAGLE3" in drafted


@pytest.mark.parametrize(("quant", "row"), [("Q4_X", "m405"), ("IQ3_K", "m402")])
def test_a_gguf_stands_beside_a_run_of_its_own_type(quant: str, row: str):
    named = f"ubergarm/Kimi-K2.6-GGUF:{quant}"
    goal = Goal(context_tokens=16_384, engine="ik_llama.cpp")
    made = plan_request(make_plan_request(named, NamedBox("2x-rtx-pro-6000-max-q-epyc-9175f"), goal, measured=()))
    found = nearest_run(made.best, made.artifact, made.request.box)
    assert found is not None
    assert (found.seen.id, found.differences) == (row, ())


@pytest.mark.parametrize(
    ("box", "model"),
    [
        (EIGHT, "kimi-k2.6"),
        ("dgx-spark", "gpt-oss-120b"),
        ("strix-halo", "gpt-oss-20b"),
    ],
)
def test_a_run_outside_the_band_is_named_as_such(box: str, model: str):
    """Band and run are held against each other at the run's own users and context."""
    made = planned_by_name(model, box)
    found = nearest_run(made.best, made.artifact, catalog.box_record(box))
    assert found is not None
    assert found.band is not None
    slow = found._replace(seen=found.seen._replace(tokens_per_second=found.band[0] / 2), differences=())
    assert slow.words.endswith("though nothing that is known of it differs: bench")
    assert "below the" in slow.words
    other = found._replace(
        seen=found.seen._replace(tokens_per_second=2 * found.band[1]), differences=("sglang for vllm",)
    )
    assert "above the" in other.words
    assert other.words.endswith("which the band does not cover")
    inside = found._replace(seen=found.seen._replace(tokens_per_second=sum(found.band) / 2))
    assert "expected there" not in inside.words


def test_editions_of_one_silicon_are_one_class_and_another_count_is_not():
    assert note(planned("kimi-k2.6", "8x-rtx-pro-6000-workstation"), "nearest-published") is not None
    assert note(planned("gpt-oss-120b", "8x-h100"), "nearest-published") is None


def test_the_trade_of_dcp_is_told_from_two_published_runs():
    words = note(planned("kimi-k2.6", EIGHT), "dcp-trade")
    assert words is not None
    assert words.startswith("DCP 8 costs 3% of decode at 32,768 context, 71.5 instead of 73.4 tok/s")
    assert "KV cache 3,811,968 instead of 478,992 tokens (8x)" in words


def test_dcp_is_a_tuning_step_and_no_default_of_a_build_on_which_nobody_ran_it():
    made = planned("kimi-k2.6", EIGHT)
    assert made.parallel.decode_context == 1
    (rung,) = (each for each in made.rungs if each.name == "dcp")
    assert rung.fits
    assert rung.why.startswith("DCP 8: KV cache of 1,254,528 tokens for ")
    assert "the context rung accepts it or not" in rung.why
    assert [
        each.name for each in planned("kimi-k2.6", EIGHT, decode_context_parallel=2).rungs if each.name == "dcp"
    ] == []


def test_dcp_is_taken_where_the_goal_needs_it():
    made = planned("kimi-k2.6", EIGHT, context_tokens=262_144)
    assert made.fits
    assert made.parallel.decode_context > 1


def test_no_step_offers_what_a_row_forbids():
    """No decode context parallelism with sparse MLA on SM 12.x (compat/vllm-sm12-sparse-mla)."""
    made = planned("glm-5.2", EIGHT, engine="vllm")
    assert [rung for rung in made.rungs if rung.name == "dcp"] == []


def test_thinking_that_the_recipe_turns_off_is_said():
    words = ["kimi-k2.6", "--box", "2x-rtx-pro-6000-max-q-epyc-9175f"]
    page = CliRunner().invoke(command, words).stdout
    assert "thinking is turned off" in page
    assert "published  18.9 tok/s" in page
    made = json.loads(CliRunner().invoke(command, [*words, "--json"]).stdout)["plans"][0]
    assert "thinking-off" in [each["code"] for each in made["notes"]]
    assert note(planned("kimi-k2.6", EIGHT), "thinking-off") is None


def test_the_table_is_read_as_its_rows_are():
    rows = {row.id: row for row in catalog.measurements()}
    for seen in published_rates(frozenset({"glm-5.1"}), lambda _: True, 8):
        row = rows[seen.id]
        assert (row.decode_tokens_per_second, row.concurrency) == (seen.tokens_per_second, seen.concurrency)
        assert row.kind in (None, "decode")

"""What stands beside a plan: the best published result, the trade of DCP, thinking that is turned off."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from upright.app.cli.plan import command
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.catalog.published_rates import published_rates
from upright.facts.records.plan import Goal, Plan
from upright.planning.choosing import plan

EIGHT = "8x-rtx-pro-6000-server"


def planned(model: str, box: str, **wishes: Any) -> Plan:
    return plan(catalog.box_record(box), records(catalog.model(model))[0], Goal(**wishes))[0]


def note(made: Plan, code: str) -> str | None:
    return next((each.message for each in made.notes if each.code == code), None)


def test_the_best_published_result_stands_beside_the_plan():
    words = note(planned("kimi-k2.6", EIGHT), "best-published")
    assert words is not None
    rates = [row for row in catalog.measurements() if row.model == "moonshotai/Kimi-K2.6" and row.gpu_count == 8]
    best = max(
        row.decode_tokens_per_second or 0
        for row in rates
        if row.concurrency == 1 and row.gpu.startswith("RTX PRO 6000") and row.kind in (None, "decode")
    )
    assert words.startswith(f"best published: {best:g} tok/s, 1 request, ")
    assert "rtx6kpro models/kimi-k26" in words
    assert "(measurements/" in words


def test_editions_of_one_silicon_are_one_class_and_another_count_is_not():
    assert note(planned("kimi-k2.6", "8x-rtx-pro-6000-workstation"), "best-published") is not None
    assert note(planned("gpt-oss-120b", "8x-h100"), "best-published") is None


def test_a_batch_is_held_against_all_requests_together():
    assert "requests together" in (note(planned("kimi-k2.6", EIGHT, use="batch"), "best-published") or "")


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
    assert "published  35 tok/s" in page
    made = json.loads(CliRunner().invoke(command, [*words, "--json"]).stdout)["plans"][0]
    assert "thinking-off" in [each["code"] for each in made["notes"]]
    assert note(planned("kimi-k2.6", EIGHT), "thinking-off") is None


def test_the_table_is_read_as_its_rows_are():
    rows = {row.id: row for row in catalog.measurements()}
    for seen in published_rates(frozenset({"glm-5.1"}), lambda _: True, 8):
        row = rows[seen.id]
        assert (row.decode_tokens_per_second, row.concurrency) == (seen.tokens_per_second, seen.concurrency)
        assert row.kind in (None, "decode")

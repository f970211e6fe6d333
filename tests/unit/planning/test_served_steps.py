"""Steps of several users hold their share of others' prompts where constants were fitted on served loads, and once."""

from __future__ import annotations

import pytest

from upright.facts import catalog
from upright.facts.records.plan import Goal
from upright.models.deriving.catalogue_models import records
from upright.planning.requests.library import plan
from upright.planning.speed.predict import PROMPT_PER_ANSWER, SpeedCase, speed_case
from upright.planning.speed.rows import speed_row


def served(users: int, context: int, *, draft: bool = False, acceptance: float | None = None) -> SpeedCase:
    (model, *_) = records(catalog.model("kimi-k2.5"))
    box = catalog.box_record("hgx-h200")
    goal = Goal(users=users, context_tokens=context, engine="vllm", draft=draft, acceptance=acceptance)
    planned = plan("kimi-k2.5", "hgx-h200", goal)[0]
    case = speed_case(planned, model, box, speed_row("vllm-nvlink"))
    assert case is not None
    return case


@pytest.mark.parametrize(("users", "context", "told"), [(1, 8192, False), (32, 0, False), (32, 8192, True)])
def test_prompts_of_others_are_met_by_several_users_with_a_context(users: int, context: int, told: bool):
    assert ("prompts" in served(users, 8192).step(context).terms) is told


def test_the_amounts_of_a_step_leave_prompts_to_who_simulates_them():
    case = served(32, 8192)
    assert all(amount.term != "prompts" for amount in case.amounts(32, 8192, 0.2))


def test_of_a_long_context_no_more_is_new_than_in_the_fitted_loads():
    case = served(8, 65536)
    answer = case.row.answer_tokens
    assert answer is not None
    fitted = case.step(PROMPT_PER_ANSWER * answer).terms["prompts"]
    assert case.step(65536).terms["prompts"] == pytest.approx(fitted)
    assert case.step(2048).terms["prompts"] < fitted


def test_a_draft_that_is_accepted_meets_more_prompts_a_step():
    few, many = (served(32, 8192, draft=True, acceptance=share).step(8192).terms["prompts"] for share in (0.2, 0.6))
    assert many == pytest.approx(few * (1 + 3 * 0.6) / (1 + 3 * 0.2))

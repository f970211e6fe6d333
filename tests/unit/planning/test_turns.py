"""Seconds for a turn: what they are sums of, who waits for whom, and what the coding agent's order makes of them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import upright
from upright.app.cli.main import cli
from upright.facts.records.plan import Goal, Plan, Rate, Seconds, Turn
from upright.planning.choosing.rule import floor_turn_seconds, missed_floors
from upright.planning.requests.plan_arguments import NamedBox, box_named
from upright.planning.speed.speed_band import RateBand
from upright.planning.speed.turns import turn

BAND = RateBand(0.5, 2.0, ())
HYBRID_BOX = NamedBox("2x-rtx-5090", memory_gib=477)


def plan_of(model: str, box: str, **wishes: object) -> Plan:
    return upright.plan(model, box, **wishes)[0]


def a_turn(users: int = 1, context_tokens: int = 65_536) -> Turn:
    """Thousand tokens a second, whatever is cached; 50 are answered."""
    found = turn(users, context_tokens, lambda new, _: new / 1000, BAND, Rate(best=50, low=40, high=60), "derived")
    assert found is not None
    return found


def test_a_turn_is_read_and_answered():
    found = a_turn()
    assert found.first_answer == Seconds(best=20.0, low=10.0, high=40.0)
    assert found.full_context == Seconds(best=65.5, low=32.8, high=131.0)
    assert found.warm is not None
    assert found.warm.best == pytest.approx(1.2 + 500 / 50, rel=0.01)
    # Both errors at once are less likely than either: the ends lie nearer than the sum of both.
    assert 0.6 + 500 / 60 < found.warm.low < found.warm.best < found.warm.high < 2.4 + 500 / 40


def test_a_short_context_has_no_longer_prompt():
    assert a_turn(context_tokens=8_192).first_answer.best == pytest.approx(8.19)


def test_the_last_of_several_users_waits_for_the_prompts_of_all():
    alone, four = a_turn(), a_turn(users=4)
    assert four.first_answer.best == 4 * (alone.first_answer.best or 0)
    assert four.warm is not None
    assert four.warm.best == pytest.approx(4 * 1.2 + 10)


def test_a_prompt_that_nobody_can_price_has_no_turn():
    assert turn(1, 65_536, lambda *_: None, BAND, Rate(best=50, low=40, high=60), "derived") is None
    few = turn(1, 65_536, lambda new, _: None if new < 4096 else 1.0, BAND, Rate(best=9, low=8, high=10), "derived")
    assert few is not None
    assert few.warm is None


def test_without_an_acceptance_rate_a_turn_has_only_a_band():
    found = turn(1, 65_536, lambda *_: 1.0, BAND, Rate(best=None, low=40, high=60), "derived")
    assert found is not None
    assert found.warm is not None
    assert found.warm.best is None
    assert found.warm.low < found.warm.high


def test_a_plan_says_the_turns_of_one_user_and_of_the_goals():
    speed = plan_of("kimi-k2.6", "8x-rtx-pro-6000-server", users=4, engine="vllm").speed
    assert speed is not None
    one, four = speed.turns
    assert (one.users, four.users) == (1, 4)
    assert one.warm is not None
    assert four.warm is not None
    assert speed.decode.best is not None
    # The last waits for four prompts of 1,200, and all decode together.
    assert (four.warm.best or 0) > 500 / speed.decode.best
    assert (one.warm.best or 0) < (four.warm.best or 0)
    assert len(plan_of("kimi-k2.6", "8x-rtx-pro-6000-server").speed.turns) == 1  # type: ignore[union-attr]


def test_assumed_ram_widens_what_its_processor_answers_and_not_what_gpus_read():
    known = upright.plan("minimax-m2.5", box_named(HYBRID_BOX._replace(bandwidth_gb=307.0)))[0].speed
    assumed = upright.plan("minimax-m2.5", box_named(HYBRID_BOX))[0].speed
    assert known is not None
    assert assumed is not None
    assert (known.turns[0].basis, assumed.turns[0].basis) == ("derived", "assumed")
    assert known.turns[0].warm is not None
    assert assumed.turns[0].warm is not None
    assert assumed.turns[0].warm.high > known.turns[0].warm.high
    assert assumed.turns[0].first_answer == known.turns[0].first_answer


def test_the_floors_together_are_a_turn_and_a_slow_first_answer_misses_one():
    assert floor_turn_seconds(Goal()) == pytest.approx(500 / 20 + 1200 * 60 / 20_000)
    assert floor_turn_seconds(Goal(use="batch")) == float("inf")
    slow = plan_of("kimi-k2.6", "Mac Studio M3 Ultra 512GB")  # 16 tok/s, and 20,000 tokens take three minutes
    assert missed_floors(slow) == 2
    assert missed_floors(plan_of("kimi-k2.6", "Mac Studio M3 Ultra 512GB", first_answer_seconds=900.0)) == 1


def test_whole_models_stand_before_experts_in_ram_whose_turn_may_be_slow():
    """Two RTX 5090: a model of 64 tok/s before one whose turn of 21 s may take 33."""
    made = upright.recommend(box_named(HYBRID_BOX), most=5)
    assert made.offers[0].offloaded_layers == 0
    slow = [offer for offer in made.offers if offer.offloaded_layers and offer.turn and offer.turn.warm
            and offer.turn.warm.high > floor_turn_seconds(made.goal)]  # fmt: skip
    assert all(made.offers.index(offer) > 0 for offer in slow)
    assert made.offers[0].turn is not None


def test_json_and_pages_show_it():
    done = CliRunner().invoke(cli, ["plan", "qwen3.6-27b", "--box", "1x RTX 4090", "--json"])
    shown = json.loads(done.stdout)["plans"][0]["speed"]
    assert shown["turns"][0]["warm"]["best"] > 500 / shown["decode"]["high"]
    assert {"first_answer", "warm", "full_context", "users", "basis"} <= set(shown["turns"][0])
    page = CliRunner().invoke(cli, ["plan", "qwen3.6-27b", "--box", "1x RTX 4090"]).stdout
    assert "a turn" in page
    assert "to a first answer to 20,000 tokens" in " ".join(page.split())
    compared = CliRunner().invoke(cli, ["compare", "qwen3.6-27b", "--box", "1x RTX 4090", "--json"])
    assert json.loads(compared.stdout)["columns"][0]["turn"]["users"] == 1

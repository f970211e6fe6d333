"""What the page's worker answers is what the command line prints: the same requests, asked in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Upright
from tests.page_requests import Request, plan_requests
from upright.app.site.page_answers import answer

LOG = "INFO vLLM API server version 0.32.0\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def asked(**question: Any) -> dict[str, Any]:
    answered: dict[str, Any] = json.loads(answer(json.dumps(question)))
    return answered


@pytest.mark.parametrize("request_", plan_requests(8), ids=str)
def test_plans_are_equal(request_: Request, upright: Upright):
    assert asked(**request_.question)["record"] == json.loads(upright(*request_.words).stdout)


@pytest.mark.parametrize("request_", plan_requests(24), ids=str)
def test_a_point_of_a_curve_is_of_the_same_configuration(request_: Request):
    """What the page pins gives the very speed that the plan has, so that a curve goes through its figure."""
    answered = asked(**request_.question)
    plan = answered["record"]["plans"][0]
    goal = {**request_.question["goal"], **answered["view"]["pinned"], "context_tokens": plan["context_tokens"]}
    point = asked(**{**request_.question, "ask": "speed", "goal": goal})
    if plan["fits"]:
        assert point == {"fits": True, "speed": plan["speed"]}


def test_smaller_models_are_not_denied_where_nobody_looked():
    answered = asked(ask="plan", model="deepseek-v4.1-flash", box="2x-rtx-5090", memory_gib=512)
    assert answered["view"]["more"]
    assert "smaller ones" not in answered["words"]


def test_the_command_beside_an_answer_gives_that_answer(upright: Upright):
    question = {
        "model": "gpt-oss-120b",
        "box": "2x-rtx-5090",
        "memory_gib": 256,
        "goal": {"users": 4, "kv_dtype": "f16"},
    }
    answered = asked(ask="plan", **question)
    assert answered["command"] == "upright plan gpt-oss-120b --box 2x-rtx-5090 --ram 256GB --users 4 --kv-dtype f16"
    assert answered["record"] == json.loads(upright(*answered["command"].split()[1:], "--json").stdout)


def test_recommend_compare_recipe_and_diagnose_are_equal(upright: Upright):
    goal, box = {"users": 2}, ("--box", "1x-rtx-pro-6000-workstation", "--users", "2")
    recommended = asked(ask="recommend", box=box[1], goal=goal)["record"]
    assert recommended == json.loads(upright("recommend", *box, "--json").stdout)
    rendered = asked(ask="recipe", model="gpt-oss-120b", box=box[1], goal=goal)
    assert rendered["record"] == json.loads(upright("render", "gpt-oss-120b", *box, "--json").stdout)
    assert rendered["text"] == upright("render", "gpt-oss-120b", *box).stdout
    files = {target["target"]: target["files"] for target in rendered["targets"] if "files" in target}
    assert [*files["compose"].values()] == [upright("render", "gpt-oss-120b", *box, "--to", "compose").stdout]
    columns = [{"model": model, "box": box[1], "rent_hour": 2.0} for model in ("gpt-oss-120b", "qwen3-coder-30b-a3b")]
    compared = asked(ask="compare", columns=columns, goal=goal)["record"]
    words = ("compare", "gpt-oss-120b", "qwen3-coder-30b-a3b", *box, "--rent", "2", "--json")
    assert compared == json.loads(upright(*words).stdout)


def test_diagnose_is_equal(upright: Upright, tmp_path):
    (tmp_path / "engine.log").write_text(LOG)
    diagnosed, printed = asked(ask="diagnose", log=LOG)["record"], upright("diagnose", "engine.log", "--json").stdout
    for record in (diagnosed, expected := json.loads(printed)):
        del record["subject"], record["digest"]
    assert diagnosed == expected
    assert diagnosed["failed"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"ask": "plan", "model": "no-such-model", "box": "hgx-b200"}, "the catalogue does not know no-such-model"),
        ({"ask": "plan", "model": "kimi-k2.6", "box": "no-such-box"}, "no no-such-box among the boxes"),
        ({"ask": "plan", "model": "kimi-k2.6", "box": "hgx-b200", "memory_gib": -1}, "memory_gib: "),
        ({"ask": "steal", "model": "kimi-k2.6"}, "'steal'"),
        ({"ask": "plan", "model": "/etc/passwd", "box": "hgx-b200"}, "the catalogue does not know /etc/passwd"),
    ],
)
def test_what_cannot_be_answered_says_why(question: dict[str, Any], message: str):
    assert message in asked(**question)["error"]["message"]

"""The users that a cache holds are not the users that a box decodes for: the page says how many get a least speed."""

from __future__ import annotations

import json
import re

import pytest

from upright.planning.choosing.published_notes import BEARABLE_TOKENS_PER_SECOND, CROWD

IMAGE = "voip-glm-kimi-canonical-20260514"
CROWDED = ("kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--kv-dtype", "fp8", "--image", IMAGE)
OF_LAYERS = ("kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--engine", "llama.cpp")
HYBRID = ("kimi-k2.6", "--box", "4x-rtx-pro-6000-workstation", "--ram", "512", "--host-bandwidth", "300")


def planned(upright, *options, box=CROWDED, context="2k"):
    run = upright("plan", *box, "--context", context, *options, "--json")
    return json.loads(run.stdout)["plans"][0]


def crowd(plan):
    return next((note["message"] for note in plan["notes"] if note["code"] == CROWD), "")


def test_a_cache_for_more_users_than_are_bearable_says_how_many_are(upright):
    alone = planned(upright)
    assert f"holds {alone['users_at_context']} users" in crowd(alone)
    served = int(re.search(r"(\d+) users? gets? 10 tok/s", crowd(alone))[1])
    assert planned(upright, "--users", f"{served}")["speed"]["decode"]["low"] >= BEARABLE_TOKENS_PER_SECOND
    assert planned(upright, "--users", f"{served + 1}")["speed"]["decode"]["low"] < BEARABLE_TOKENS_PER_SECOND


@pytest.mark.parametrize("least", ["9", "15"])
def test_a_least_speed_of_ones_own_decides(upright, least):
    assert re.search(rf" gets? {least} tok/s or more", crowd(planned(upright, "--min-speed", least)))


def test_as_many_as_the_cache_holds_need_no_note(upright):
    assert crowd(planned(upright, context="256k")) == ""


def test_where_nobody_measured_so_many_it_says_so(upright):
    """Whole layers on GPUs: published runs are of few users."""
    assert "concurrent users is not known" in crowd(planned(upright, box=OF_LAYERS, context="4k"))


def test_experts_that_fill_the_gpus_leave_no_more_users_than_were_asked_for(upright):
    plan = planned(upright, box=HYBRID, context="4k")
    assert (plan["users_at_context"], plan["kv"]["low_tokens"], crowd(plan)) == (1, 4_096, "")

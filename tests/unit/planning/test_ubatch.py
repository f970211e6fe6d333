"""How much of a prompt is read at once decides how fast experts in system RAM read it: `--ubatch` asks for it."""

from __future__ import annotations

import upright
from upright.facts.records.plan import Plan

MODEL, BOX = "ubergarm/Kimi-K2.6-GGUF:Q4_X", "2x-rtx-pro-6000-max-q-epyc-9175f"


def planned(tokens: int | None) -> Plan:
    return upright.plan(MODEL, BOX, engine="llama.cpp", context_tokens=16_384, batched_tokens=tokens)[0]


def test_it_is_what_was_asked_for_and_the_recipe_says_so():
    made = planned(512)
    assert made.ubatch_tokens == 512
    assert next(each.value for each in upright.render(made).arguments if each.name == "--ubatch-size") == "512"


def test_a_longer_one_copies_experts_less_often():
    short, long = planned(512).speed, planned(4096).speed
    assert short is not None
    assert long is not None
    assert short.prompt is not None
    assert long.prompt is not None
    assert 3 < long.prompt.best / short.prompt.best < 8  # type: ignore[operator]
    assert planned(None).ubatch_tokens in (1024, 2048, 4096)

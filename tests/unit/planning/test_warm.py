"""Agents wait, users decode: whose conversations stay in the cache, and what system RAM would keep, by engine."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.conftest import Upright
from upright.base.units import GIB
from upright.planning.choosing.agent_cache import WARM

KIMI = ("kimi-k2.6", "--box", "8x-rtx-pro-6000-server")


def warmth(upright: Upright, *words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    run = upright("plan", *words, "--json")
    plan = json.loads(run.stdout)["plans"][0]
    (note,) = [note for note in plan["notes"] if note["code"] == WARM]
    return plan, note


def test_nobody_who_did_not_ask_is_told(upright: Upright):
    plans = json.loads(upright("plan", *KIMI, "--json").stdout)["plans"]
    assert not [note for plan in plans for note in plan["notes"] if note["code"] == WARM]


def test_as_many_as_the_cache_holds_stay_warm(upright: Upright):
    _, note = warmth(upright, *KIMI, "--agents", "2")
    assert "every conversation stays warm" in note["message"]
    assert note["remedy"] is None


def test_vllm_is_given_one_buffer_for_all_ranks(upright: Upright):
    plan, note = warmth(upright, *KIMI, "--ram", "512", "--agents", "5")
    kv = plan["kv"]
    each = kv["copies"] * (plan["context_tokens"] * kv["bytes_per_token"] + kv["bytes_per_sequence"])
    cold = 5 - plan["users_at_context"]
    size = int(re.search(r"--kv-offloading-size (\d+)", note["remedy"])[1])
    assert cold * each <= size * GIB < cold * each + GIB


def test_what_an_engine_does_by_itself_needs_no_flag(upright: Upright):
    box = ("--box", "1x-rtx-4090", "--ram", "96", "--engine", "llama.cpp")
    _, note = warmth(upright, "gpt-oss-20b", *box, "--agents", "4")
    assert "the engine does that by itself" in note["message"], "its own default keeps 8 GiB"
    assert note["remedy"] is None
    _, note = warmth(upright, "gpt-oss-20b", *box, "--agents", "20")
    assert re.fullmatch(r"--host-cache (\d+) \(--cache-ram \d+\)", note["remedy"])


def test_sglang_needs_more_than_the_gpus_hold(upright: Upright):
    plan, note = warmth(upright, *KIMI, "--ram", "512", "--engine", "sglang", "--agents", "5")
    size = int(re.search(r"--enable-hierarchical-cache --hicache-size (\d+)", note["remedy"])[1])
    kv, ranks = plan["kv"], plan["parallel"]["tensor"]
    assert size * 1e9 > kv["high_tokens"] * kv["bytes_per_token"] * kv["copies"] / ranks


@pytest.mark.parametrize(("ram", "words"), [((), "is not known"), (("--ram", "8"), "5.00 GiB is free: more RAM")])
def test_ram_that_is_not_there_is_not_promised(upright: Upright, ram: tuple[str, ...], words: str):
    _, note = warmth(upright, *KIMI, *ram, "--agents", "40")
    assert words in note["message"]
    assert (note["remedy"] is None) == bool(ram)

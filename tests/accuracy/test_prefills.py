"""Prefill by what siblings reach: as a fit gives it today, for sources that were left out, and asked of plans."""

from __future__ import annotations

import math
import re
from itertools import product
from statistics import fmean

import pytest

import upright
from scripts.fitting import prefills
from upright.facts import catalog
from upright.facts.catalog.rows.speed import PrefillRow
from upright.planning.requests.plan_arguments import NamedBox, box_named
from upright.planning.speed.prefill_reach import SIBLINGS
from upright.planning.speed.speed_band import WIDEST
from upright.planning.speed.spread import interval, spread

ROWS = [row.id for row in catalog.rows("prefills").values() if isinstance(row, PrefillRow)]
BOXES = (
    "1x-rtx-3090", "1x-rtx-4090", "1x-rtx-5090", "1x-rtx-pro-6000-workstation", "1x-a100-sxm-80gb", "1x-h100-sxm",
    "1x-b200-sxm", "1x-mi300x", "strix-halo", "m3-ultra",
)  # fmt: skip
MODELS = ("gpt-oss-120b", "gpt-oss-20b", "qwen3-30b-a3b", "qwen3.6-27b", "glm-4.7-flash", "kimi-k2.6")


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_what_a_fit_gives_today(name: str):
    """scripts/fit-speeds writes shares and errors."""
    row = prefills.prefill(name)
    assert {field: getattr(row, field) for field in prefills.refit(name)} == prefills.refit(name)
    assert row.errors == prefills.held_out_errors(name)
    assert row.errors.high / row.errors.low <= WIDEST


def test_a_source_that_was_left_out_lies_inside_what_the_others_promise():
    """Its share and its band are of the other sources alone."""
    inside = []
    for name in ROWS:
        missed, like = prefills.misses(name), prefills.spreads_alike(name)
        for source in {miss.source for miss in missed}:
            others = [miss for miss in missed if miss.source != source]
            low, high = interval(spread(others), like, prefills.OUTSIDE)
            own = [low <= math.exp(miss.log) <= high for miss in missed if miss.source == source]
            inside.append(sum(own) / len(own))
            print(f"\n{name}: {source}: {inside[-1]:.0%} inside")
    assert len(inside) >= 14
    assert fmean(inside) >= 0.85


@pytest.mark.slow
def test_prefill_is_answered_for_what_people_run_on_ten_boxes():
    """768 GB of system RAM, where the box has any of its own."""
    answered = {}
    for box, model in product(BOXES, MODELS):
        made = upright.plan(model, box_named(NamedBox(box, memory_gib=768e9 / 2**30)))[0]
        if made.speed is not None and made.speed.prompt is not None:
            answered[box, model] = made
    assert len(answered) >= 54
    for asked, made in answered.items():
        found = made.speed.prompt
        assert found.best is not None, asked
        assert found.low < found.best < found.high, asked
        assert found.high / found.low <= WIDEST * 1.001, asked
        assert made.speed.prompt_basis in ("measured", "derived"), asked
        assert re.match(r"(from compute and siblings: prefills|speeds)/[\w.-]+, median error", made.speed.prompt_why), (
            asked
        )


def test_what_stands_behind_a_prompt_is_said():
    siblings = upright.plan("qwen3.6-27b", "1x RTX 3090")[0].speed
    measured = upright.plan("kimi-k2.6", "8x-rtx-pro-6000-server", engine="vllm")[0].speed
    assert siblings is not None
    assert (siblings.prompt_basis, (siblings.prompt_why or "").partition(":")[0]) == ("derived", SIBLINGS)
    assert measured is not None
    assert (measured.prompt_why or "").startswith("speeds/vllm-sm120-pcie")


def test_a_longer_prompt_is_read_slower_and_a_slower_slot_holds_experts_up():
    """Attention grows with depth; experts in system RAM come over PCIe, once an ubatch."""
    box = box_named(NamedBox("1x RTX 5090", memory_gib=119))
    short, long = (upright.plan("qwen3.6-27b", box, context_tokens=tokens)[0].speed for tokens in (16_384, 65_536))
    assert short is not None
    assert long is not None
    assert short.prompt is not None
    assert long.prompt is not None
    assert short.prompt.best > long.prompt.best  # type: ignore[operator]
    hybrid = upright.plan("glm-4.5-air", box)[0]
    assert hybrid.speed is not None
    uploads = [term for term in hybrid.speed.terms if (term.step, term.term) == ("prompt", "upload")]
    assert len(uploads) == 1
    assert "over PCIe" in uploads[0].why
    slow = box.gpus[0].pcie.model_copy(update={"generation_max": box.gpus[0].pcie.generation_max.model_copy(
        update={"value": 3})})  # fmt: skip
    slower = upright.plan("glm-4.5-air", box.model_copy(
        update={"gpus": (box.gpus[0].model_copy(update={"pcie": slow}),)}))[0]  # fmt: skip
    assert slower.speed is not None
    assert slower.speed.prompt is not None
    assert hybrid.speed.prompt is not None
    assert slower.speed.prompt.best < 0.7 * hybrid.speed.prompt.best  # type: ignore[operator]

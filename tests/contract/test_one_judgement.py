"""The same question has the same answer in `plan`, `recommend`, `compare`, `render` and on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

import upright
from upright.app.cli.main import cli
from upright.app.site.page_answers import answer
from upright.facts import catalog
from upright.facts.records.recommendation import ModelOffer
from upright.planning.choosing.artifacts import releases_of
from upright.planning.recommending import recommend

USES = ("coding-agent", "chat", "batch")
GATED = 16
Shown = tuple[Any, ...]


def _cases() -> list[tuple[str, str, str]]:
    """Every box with every model that a name is typed for, in every use."""
    models = [name for row in catalog.models() for name in releases_of(row)]
    return [(box.id, model, use) for box in catalog.boxes() for model in models for use in USES]


def _pairwise(count: int) -> list[tuple[str, str, str]]:
    """So many that as many pairs of a box and a use, a model and a use, a box and a model are met as can be."""
    cases, met, taken = _cases(), set[tuple[str, str]](), []
    Random(5).shuffle(cases)
    for _ in range(count):
        case = max(cases[:800], key=lambda one: len(set(_pairs(one)) - met))
        met |= set(_pairs(case))
        taken.append(case)
    return taken


def _pairs(case: tuple[str, str, str]) -> Iterator[tuple[str, str]]:
    box, model, use = case
    yield from ((box, use), (model, use), (box, model))


def _rates(speed: Any) -> Shown:
    def ends(rate: Any) -> Shown | None:
        return None if rate is None else (rate.low, rate.best, rate.high)

    return (ends(speed.decode), ends(speed.prompt)) if speed else (None, None)


def _recommended(box: str, model: str, use: Any) -> ModelOffer | None:
    """Among the releases of its row alone: what others are offered changes nothing of this one."""
    row = catalog.find_model(model)
    assert row is not None
    made = recommend(catalog.box_record(box), upright.Goal(use=use), most=None, rows=(row,))
    return next((offer for offer in made.offers if offer.model == model), None)


def _differences(box: str, model: str, use: str) -> list[str]:
    best = upright.plan(model, box, use=use)[0]
    shown = (best.model, best.engine, best.context_tokens, *_rates(best.speed))
    column = upright.compare([model], [box], use=use).columns[0]
    found = []
    compared = (column.model, column.engine, column.context_tokens)
    if compared != shown[:3] or (best.fits and _rates(column) != shown[3:]) or column.fits != best.fits:
        found.append(f"compare: {compared} against {shown[:3]}")
    offer = _recommended(box, model, use)
    if (offer is not None) != best.fits:
        found.append(f"recommend offers it: {offer is not None}, plan says that it fits: {best.fits}")
    elif offer is not None and (offer.artifact, offer.engine, offer.context_tokens, *_rates(offer)) != shown:
        found.append(f"recommend: {offer.artifact} on {offer.engine} against {shown[:2]}")
    question = {"ask": "plan", "model": model, "box": box, "goal": {"use": use}}
    of_page = json.loads(answer(json.dumps(question)))["record"]["plans"][0]
    if (of_page["model"], of_page["engine"], of_page["parallel"], of_page["kv"]["dtype"]) != (
        best.model, best.engine, best.to_dict()["parallel"], best.kv.dtype,
    ):  # fmt: skip
        found.append(f"the page: {of_page['model']} on {of_page['engine']} against {shown[:2]}")
    return [f"{model} on {box} for {use}: {each}" for each in found]


def test_a_box_whose_ram_nobody_told_has_one_answer() -> None:
    """Four layers of experts are put into what any machine has: a bound that counts none refused what fits."""
    assert _differences("1x-rtx-pro-6000-server", "qwen3.5-397b-a17b", "chat") == []


@pytest.mark.parametrize("part", range(4))
def test_a_drawn_sample_has_one_answer(part: int) -> None:
    assert [each for case in _pairwise(GATED)[part::4] for each in _differences(*case)] == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("box", [row.id for row in catalog.boxes()])
def test_every_box_and_model_has_one_answer(box: str) -> None:
    assert [each for case in _cases() if case[0] == box for each in _differences(*case)] == []


@pytest.mark.parametrize(("words", "expected"), [
    # both builds are native and of one size: the faster, by constants of that GPU
    (("gpt-oss-120b", "--box", "dgx-spark"), ("gpt-oss-120b-GGUF:MXFP4_MOE", "llama.cpp", "f16")),
    # eight bits before four; NVFP4 is unpacked for every step there, and its speed is not known
    (("qwen3.6-27b", "--box", "2x-rtx-3090"), ("Qwen3.6-27B-FP8", "vllm", "bf16")),
    # both builds are native: the faster, four ranks at once and not one card after the other
    (("gpt-oss-120b", "--box", "4x-rtx-3090"), ("gpt-oss-120b", "vllm", "bf16")),
    # a smaller cache type before weights that lost much
    (("kimi-k2.6", "--box", "1x-rtx-4090", "--ram", "768GB"), ("Kimi-K2.6-GGUF:IQ3_K", "ik_llama.cpp", "q8_0")),
    # ten users of 200k: the image reads an fp8 cache, which eight ranks share
    (("kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--users", "10", "--context", "200000"),
     ("Kimi-K2.6", "vllm", "fp8")),
    # the settings of a field report, which only an image answers
    (("kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--kv-dtype", "fp8", "--dcp", "8", "--engine", "vllm"),
     ("Kimi-K2.6", "vllm", "fp8")),
    # 64k in f16 beside the weights: two cards, or a card and RAM for the rest
    (("gpt-oss-120b", "--box", "1x-rtx-3090", "--ram", "64GB"), ("gpt-oss-120b-GGUF:MXFP4_MOE", "llama.cpp", "f16")),
    # eight bits on four cards of 24 GB: 66 GB of native weights are slower, and those of four bits have lost more
    (("qwen3-32b", "--box", "4x-rtx-4090"), ("Qwen3-32B-FP8", "vllm", "bf16")),
    # native weights with constants of this card; llama.cpp's 204 tok/s are those of other cards, in whose band it lies
    (("gpt-oss-120b", "--box", "1x-rtx-pro-6000-server"), ("gpt-oss-120b", "vllm", "bf16")),
    # NVFP4 unpacked by Marlin reads as few bytes on Hopper; llama.cpp on eight such cards is half as fast
    (("glm-5.1", "--box", "8x-h100-sxm"), ("GLM-5.1-NVFP4-MTP", "vllm", "fp8_ds_mla")),
    # the name is Instruct-2507, and its context
    (("qwen3-235b-a22b", "--box", "hgx-b200"), ("Qwen3-235B-A22B-Instruct-2507", "vllm", "bf16")),
])  # fmt: skip
def test_what_an_expert_would_take(words: tuple[str, ...], expected: Shown) -> None:
    done = CliRunner().invoke(cli, ["plan", *words, "--json"])
    assert done.exit_code == 0, done.output
    best = json.loads(done.stdout)["plans"][0]
    assert (best["model"], best["engine"], best["kv"]["dtype"]) == expected


@pytest.mark.parametrize(("words", "said", "unsaid"), [
    # 24 GB and 48 GB of system RAM hold 63 GB; four cards hold them too, in the build that does
    (("gpt-oss-120b", "--box", "1x-rtx-3090"), ("depends on system RAM", "--ram 48GB", "on 4 such GPUs"), ()),
    (("gpt-oss-120b", "--box", "1x-rtx-3090", "--ram", "32GB"),
     ("- 48 GB of system RAM", "next: upright plan gpt-oss-120b --box 1x-rtx-3090 --ram 48GB"), ()),
    # an engine without kernels there is no reason why weights are too large
    (("glm-4.7", "--box", "strix-halo"),
     ("GLM-4.7-GGUF", "more than the memory that GPU and system share"), ("kernels",)),
    # every weight of a dense model is read for every token
    (("qwen3-32b", "--box", "1x-rtx-3090"), ("does not fit",), ("experts",)),
    # a lossy build fits without a word on RAM, in which a better one may be held
    (("qwen3.5-397b-a17b", "--box", "1x-rtx-pro-6000-server"), ("system RAM is not specified", "--ram 384GB"), ()),
])  # fmt: skip
def test_a_no_says_what_is_nearest(words: tuple[str, ...], said: tuple[str, ...], unsaid: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["plan", *words], env={"COLUMNS": "400"})
    assert [text for text in said if text not in done.output] == [], done.output
    assert [text for text in unsaid if text in done.output] == [], done.output


def test_a_faster_machine_is_not_passed_over_for_a_slower_one() -> None:
    """gpt-oss-120b decodes faster on a DGX Spark than on a Strix Halo, and `compare` goes on with the faster."""
    done = CliRunner().invoke(cli, ["compare", "gpt-oss-120b", "--box", "dgx-spark", "--box", "strix-halo"])
    assert "next: upright plan gpt-oss-120b --box dgx-spark" in done.output


def test_recommend_answers_with_the_best_a_fast_and_a_small_one() -> None:
    made = upright.recommend("8x-rtx-pro-6000-server")
    best, fast, small = made.offers[0], made.fast, made.small
    assert fast is not None
    assert small is not None
    assert fast.decode is not None
    assert best.decode is not None
    assert (fast.decode.best or 0) >= 1.5 * (best.decode.best or 0)
    assert 1.5 * small.download_bytes <= best.download_bytes
    done = CliRunner().invoke(cli, ["recommend", "--box", "8x-rtx-pro-6000-server"])
    assert [line.split()[0] for line in done.output.splitlines()[2:5]] == ["best", "fast", "small"]
    for offer in (fast, small):
        plan = upright.plan(offer.model, "8x-rtx-pro-6000-server")[0]
        assert (plan.model, plan.engine) == (offer.artifact, offer.engine)


def test_ten_users_of_a_long_context_have_a_cache_each() -> None:
    best = upright.plan("kimi-k2.6", "8x-rtx-pro-6000-server", users=10, context_tokens=200_000)[0]
    assert (best.parallel.decode_context, best.users_at_context) == (8, 12)


def _with(box: upright.Box, **change: Any) -> upright.Box:
    return box.model_copy(update=change)


@pytest.mark.parametrize(("box", "model"), [
    ("1x-rtx-5090", "qwen3-32b"), ("2x-rtx-3090", "qwen3.6-27b"), ("4x-rtx-pro-6000-server", "kimi-k2.6"),
    ("1x-rtx-4090", "gpt-oss-120b"), ("2x-rtx-4090", "glm-4.5-air"),
])  # fmt: skip
def test_one_more_gpu_never_makes_the_best_way_worse(box: str, model: str) -> None:
    here = catalog.box_record(box)
    more = _with(here, gpus=(*here.gpus, here.gpus[0].model_copy(update={"index": len(here.gpus)})))
    before, after = (upright.plan(model, one)[0] for one in (here, more))
    assert after.fits >= before.fits
    if before.fits and before.speed:
        assert after.speed is not None
        assert (after.speed.decode.best or 0) >= before.speed.decode.low


@pytest.mark.parametrize("wish", [{"engine": "vllm"}, {"kv_dtype": "bf16", "engine": "vllm"}, {"users": 4}])
def test_a_wish_that_is_dropped_never_makes_it_worse(wish: dict[str, Any]) -> None:
    for box, model in (
        ("8x-rtx-pro-6000-server", "kimi-k2.6"),
        ("dgx-spark", "gpt-oss-120b"),
        ("1x-rtx-5090", "qwen3-32b"),
    ):
        free, bound = upright.plan(model, box)[0], upright.plan(model, box, **wish)[0]
        assert free.fits >= bound.fits
        if bound.fits and bound.speed:
            assert free.speed is not None
            assert (free.speed.decode.best or 0) >= bound.speed.decode.low

"""Advice that no engine starts: refused by class, for every model of the catalogue that is of it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from upright.app.cli.main import cli
from upright.base.errors import EngineError
from upright.engines.constraints import breaches, recipe_situation
from upright.facts import catalog
from upright.facts.records.box import Box
from upright.facts.records.model import CompressedAttention, GqaAttention, MlaAttention, Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recipe import Setting
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.requests.library import artifact_choice_for
from upright.serving.check import check

SM120, IMAGE = "8x-rtx-pro-6000-server", "voip-glm-kimi-canonical-20260514"


def native(name: str) -> Model:
    """As its maker published it, whether or not its size is known."""
    found = artifact_choice_for(name)
    return next(each for each in (found.model, *found.choose_from) if each.format != "gguf")


FIRST = {row.id: native(row.id) for row in catalog.models()}
SPARSE = sorted(
    name
    for name, model in FIRST.items()
    if any(
        isinstance(kind, CompressedAttention) or (isinstance(kind, MlaAttention) and kind.sparse)
        for kind in model.architecture.attention
    )
)
PLAIN_SPARSE = sorted(
    name for name in SPARSE if any(isinstance(kind, MlaAttention) for kind in FIRST[name].architecture.attention)
)
COMPRESSED = sorted(
    name for name in SPARSE if any(isinstance(kind, CompressedAttention) for kind in FIRST[name].architecture.attention)
)
WINDOWS = sorted(
    name
    for name, model in FIRST.items()
    if any(
        isinstance(kind, CompressedAttention | GqaAttention) and kind.window_tokens
        for kind in model.architecture.attention
    )
)
DENSE = sorted(
    name
    for name, model in FIRST.items()
    if any(isinstance(kind, MlaAttention) and not kind.sparse for kind in model.architecture.attention)
)
NO_DRAFT = sorted(name for name in FIRST if not catalog.model(name).drafts)
BEFORE_SM90 = ("8x-a100-sxm-80gb", "16x-l40s", "16x-rtx-3090", "16x-rtx-4090", "16x-rtx-2080-ti")


def said(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), prog_name="upright", env={"COLUMNS": "80", "NO_COLOR": "1"})


def one_line(done: Result) -> str:
    return " ".join(done.output.split())


def boxed(name: str) -> Box:
    return catalog.box_record(name)


def planned(model: str, box: str, **goal: object) -> list[Plan]:
    return list(plan(boxed(box), FIRST[model], Goal(**goal)))


def refused_by(made: Plan) -> str:
    return " ".join(objection.message for objection in made.objections)


# ---- sparse attention has no kernel before SM 9.0 ----


def test_the_classes_are_not_empty():
    assert {"deepseek-v3.2", "deepseek-v4-flash", "glm-5", "glm-5.2"} <= set(SPARSE)
    assert {"deepseek-v4-flash", "gpt-oss-120b"} <= set(WINDOWS)
    assert {"deepseek-v4-flash", "deepseek-v4-pro"} <= set(COMPRESSED)
    assert {"minimax-m2.7", "qwen3-coder-480b"} <= set(NO_DRAFT)
    assert {"kimi-k2.6", "deepseek-v3.1"} <= set(DENSE)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("box", BEFORE_SM90)
@pytest.mark.parametrize("model", SPARSE)
def test_sparse_attention_is_refused_where_it_has_no_kernel(model, box, engine):
    made = planned(model, box, engine=engine)
    assert made
    assert all(f"{engine}-sparse-attention-before-sm90" in refused_by(each) for each in made)
    assert not any(each.fits for each in made)


def test_nothing_that_cannot_start_is_offered_on_a_page():
    done = said("plan", "deepseek-v4-flash", "--box", "8x-a100-sxm-80gb", "--json")
    told = json.loads(done.stdout)
    assert [each["engine"] for each in told["plans"] if each["fits"] and each["engine"] in ("vllm", "sglang")] == []
    shown = one_line(said("plan", "deepseek-v4-flash", "--box", "8x-a100-sxm-80gb", "--engine", "vllm"))
    assert "DeepSeek-V4-Flash-0731: not like this" in shown
    assert "constraints/vllm-sparse-attention-before-sm90" in shown
    written = said("render", "deepseek-v4-flash", "--box", "8x-a100-sxm-80gb", "--engine", "vllm")
    assert written.exit_code == 1
    assert "--tensor-parallel-size" not in written.output


@pytest.mark.parametrize("box", ["hgx-h200", "hgx-b200", SM120])
def test_where_it_has_one_it_is_not_refused(box):
    for engine in ("vllm", "sglang"):
        assert not any("before-sm90" in refused_by(each) for each in planned("glm-5.2", box, engine=engine))


# ---- windows are not shared by decode context parallelism in vLLM ----


@pytest.mark.parametrize("model", WINDOWS)
def test_a_window_is_not_shared(model):
    asked = planned(model, "hgx-h200", engine="vllm", decode_context_parallel=2)
    assert all("vllm-dcp-no-windows" in refused_by(each) for each in asked)
    for box in ("hgx-h200", "2x-rtx-pro-6000-workstation"):
        assert {each.parallel.decode_context for each in planned(model, box, engine="vllm")} == {1}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("model", COMPRESSED)
def test_a_compressed_cache_is_not_shared_by_anybody(model, engine):
    for each in planned(model, "hgx-h200", engine=engine, decode_context_parallel=8):
        assert not each.fits
        assert "constraints/" in refused_by(each)


def test_a_recipe_of_deepseek_v4_shares_no_cache():
    done = said("render", "deepseek-v4-flash", "--box", "2x-rtx-pro-6000-workstation")
    assert "--decode-context-parallel-size" not in done.output


# ---- the packed cache of sparse MLA on AMD ----


@pytest.mark.parametrize("box", ["8x-mi300x", "8x-mi355x"])
@pytest.mark.parametrize("model", PLAIN_SPARSE)
def test_the_packed_cache_is_not_told_to_amd(model, box):
    for each in planned(model, box, engine="vllm"):
        assert each.kv.dtype != "fp8_ds_mla"
        assert "constraints/" not in refused_by(each)
    for each in planned(model, box, engine="vllm", kv_dtype="fp8_ds_mla"):
        assert "vllm-amd-sparse-mla-cache" in refused_by(each)


@pytest.mark.parametrize("box", ["8x-mi300x", "8x-mi355x"])
@pytest.mark.parametrize("model", PLAIN_SPARSE)
def test_nor_is_its_cache_shared_there(model, box):
    shared = planned(model, box, engine="vllm", decode_context_parallel=8)
    assert all("vllm-amd-sparse-mla-no-dcp" in refused_by(each) for each in shared)
    assert {each.parallel.decode_context for each in planned(model, box, engine="vllm")} == {1}


# ---- SGLang: a shared cache of dense MLA with a draft, and in fp8 ----


@pytest.mark.parametrize("box", [SM120, "hgx-h200", "hgx-b200"])
@pytest.mark.parametrize("model", DENSE)
def test_a_shared_cache_and_a_draft_do_not_go_together(model, box):
    drafted = planned(model, box, engine="sglang", decode_context_parallel=8, draft=True)
    assert all("sglang-dcp-verify-needs-lse" in refused_by(each) for each in drafted)
    plain = planned(model, box, engine="sglang", decode_context_parallel=8)
    assert not any("sglang-dcp-verify-needs-lse" in refused_by(each) for each in plain)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3"])
@pytest.mark.parametrize("model", DENSE)
def test_a_shared_cache_is_not_cast_at_every_step(model, dtype):
    shared = planned(model, SM120, engine="sglang", decode_context_parallel=8, kv_dtype=dtype)
    assert all("sglang-dcp-fp8-cast" in refused_by(each) for each in shared)
    alone = planned(model, SM120, engine="sglang", decode_context_parallel=1, kv_dtype=dtype)
    assert not any("sglang-dcp-fp8-cast" in refused_by(each) for each in alone)


@pytest.mark.parametrize("box", ["16x-h200-sxm", "16x-b200-sxm", "8x-b300-sxm"])
def test_kimi_k3_shares_its_cache_with_no_backend_that_is_planned(box):
    shared = planned("kimi-k3", box, engine="sglang", decode_context_parallel=8)
    assert all("sglang-kimi-k3-dcp-backend" in refused_by(each) for each in shared)
    assert planned("kimi-k3", box, engine="sglang", decode_context_parallel=1)[0].fits


def test_both_are_refused_by_render_and_by_check():
    words = ("kimi-k2.6", "--box", SM120, "--engine", "sglang", "--dcp", "8")
    for more in (("--draft",), ("--kv-dtype", "fp8")):
        assert said("render", *words, *more).exit_code == 1
    machine, model = boxed(SM120), FIRST["kimi-k2.6"]
    good = plan(machine, model, Goal(engine="sglang", decode_context_parallel=8))[0]
    made = render(good, model, machine, model_path="w", port=1, wishes=RenderOptions(must_be_installed=False))
    assert check(made).verdict == "accepted"
    for name, text, row in (
        ("--speculative-algorithm", "EAGLE3", "sglang-dcp-verify-needs-lse"),
        ("--kv-cache-dtype", "fp8_e4m3", "sglang-dcp-fp8-cast"),
    ):
        others = tuple(setting for setting in made.arguments if setting.name != name)
        by_hand = made.model_copy(update={"arguments": (*others, Setting(name=name, value=text, reason="by hand"))})
        situation = recipe_situation(by_hand)
        assert situation is not None
        assert row in [breach.row.id for breach in breaches(situation) if breach.refused]
    bad = plan(machine, model, Goal(engine="sglang", decode_context_parallel=8, draft=True))[0]
    with pytest.raises(EngineError, match="sglang-dcp-verify-needs-lse"):
        render(bad, model, machine, model_path="w", port=1, wishes=RenderOptions(must_be_installed=False))


def test_the_image_that_measured_it_is_named():
    shown = one_line(said("plan", "kimi-k2.6", "--box", SM120, "--kv-dtype", "fp8", "--dcp", "8"))
    assert "Kimi-K2.6: fits" in shown  # by the image that measured it, and says so
    assert f"by the community image {IMAGE}" in shown
    with_it = said("plan", "kimi-k2.6", "--box", SM120, "--kv-dtype", "fp8", "--dcp", "8", "--image", IMAGE, "--json")
    first = json.loads(with_it.stdout)["plans"][0]
    assert (first["fits"], first["engine"], first["parallel"]["decode_context"]) == (True, "vllm", 8)


# ---- a draft that does not exist ----


@pytest.mark.parametrize("model", NO_DRAFT)
def test_a_draft_that_nobody_made_has_no_speed(model):
    for each in planned(model, SM120, draft=True):
        assert each.memory_fraction is None or each.speed is None


def test_that_there_is_none_is_said():
    shown = one_line(said("plan", "minimax-m2.7", "--box", SM120, "--draft"))
    assert "no draft" in shown
    assert "decode not known: " in shown
    known = one_line(said("plan", "kimi-k2.6", "--box", SM120, "--draft", "--engine", "vllm"))
    assert "no draft" not in known


# ---- an image that is built for other GPUs ----


def test_an_image_for_other_gpus_is_neither_named_nor_planned():
    words = ("plan", "glm-4.7-flash", "--box", "4x-l40s", "--engine", "vllm")
    assert "--image" not in one_line(said(*words, "--kv-dtype", "fp8"))
    with_it = one_line(said(*words, "--image", IMAGE))
    assert "GLM-4.7-Flash: fits" not in with_it
    assert f"the image {IMAGE} is built for other GPUs" in with_it

"""The examples that cost people an evening: on the page, in the JSON, in the recipe and in `check`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from upright.app.cli.plan import command
from upright.base.errors import EngineError
from upright.engines.constraints import Situation, breaches, recipe_situation
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions
from upright.serving.check import check

SM120, H200, B200 = "8x-rtx-pro-6000-server", "hgx-h200", "hgx-b200"


def artifact(model: str, containing: str = "") -> Model:
    return next(each for each in records(catalog.model(model)) if containing in each.source)


def planned(model: str, box: str, **goal: object) -> Plan:
    return plan(catalog.box_record(box), artifact(model), Goal(**goal))[0]


def recipe(model: str, box: str, wishes: RenderOptions | None = None, **goal: object) -> Recipe:
    machine, made = catalog.box_record(box), planned(model, box, **goal)
    wishes = wishes or RenderOptions(must_be_installed=False)
    return render(made, artifact(model), machine, model_path="weights", port=8000, wishes=wishes)


def page(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    return " ".join(CliRunner().invoke(command, words).output.split())


def settings(made: Recipe) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in made.arguments}


def changed(made: Recipe, name: str, text: str) -> Recipe:
    """As a person edits a recipe's file."""
    others = tuple(setting for setting in made.arguments if setting.name != name)
    setting = Setting(name=name, value=text, reason="by hand")
    return made.model_copy(update={"arguments": (*others, setting)})


# ---- sparse MLA on SM 12.x has no decode context parallelism: constraints/vllm-sm12-sparse-mla-no-dcp ----


def test_a_million_tokens_of_sparse_mla_are_not_promised_by_sharing_a_cache(monkeypatch):
    asked = ("glm-5.2", "--box", SM120, "--context", "1024k", "--engine", "vllm")
    shown = page(monkeypatch, *asked)
    assert "does not fit" in shown
    assert "DCP 2, 4, 8 not offered" in shown
    assert "constraints/vllm-sm12-sparse-mla-no-dcp" in shown
    told = json.loads(CliRunner().invoke(command, [*asked, "--json"]).stdout)
    assert told["fits"] is False
    assert {each["parallel"]["decode_context"] for each in told["plans"]} == {1}
    assert all(each["objections"] for each in told["plans"])
    assert "are sure to fit" in told["plans"][0]["objections"][0]["message"]


def test_a_sharing_that_is_asked_for_is_refused_with_its_row(monkeypatch):
    made = planned("glm-5.2", SM120, engine="vllm", decode_context_parallel=8)
    assert [(no.code, no.remedy) for no in made.objections] == [("constraint", "--dcp 1")]
    assert "vllm-sm12-sparse-mla-no-dcp" in made.objections[0].message


def test_render_cannot_write_it_and_check_refuses_it():
    machine, model = catalog.box_record(SM120), artifact("glm-5.2")
    made = planned("glm-5.2", SM120, engine="vllm", decode_context_parallel=8)
    with pytest.raises(EngineError, match="vllm-sm12-sparse-mla-no-dcp") as caught:
        render(made, model, machine, model_path="w", port=1, wishes=RenderOptions(must_be_installed=False))
    assert "upright explain vllm-sm12-sparse-mla-no-dcp" in (caught.value.hint or "")
    good = recipe("glm-5.2", SM120, engine="vllm")
    assert check(good).verdict == "accepted"
    verdict = check(changed(good, "--decode-context-parallel-size", "8"))
    assert verdict.verdict == "refused"
    assert verdict.refusals[0].setting == "--decode-context-parallel-size 8"
    assert "vllm-sm12-sparse-mla-no-dcp" in verdict.refusals[0].message


def test_a_flag_with_an_equals_sign_is_read_too():
    good = recipe("glm-5.2", SM120, engine="vllm")
    by_hand = Setting(name="--decode-context-parallel-size=8", reason="by hand")
    verdict = check(good.model_copy(update={"arguments": (*good.arguments, by_hand)}))
    assert any("vllm-sm12-sparse-mla-no-dcp" in refusal.message for refusal in verdict.refusals)


def test_a_recipe_of_before_says_that_it_was_not_judged():
    old = recipe("glm-5.2", SM120, engine="vllm").model_copy(update={"circumstances": None})
    assert any("was not judged" in remark for remark in check(old).remarks)


# ---- block FP8 decides the split: constraints/vllm-block-fp8-split, sglang-block-fp8-split ----


@pytest.mark.parametrize("model", ["minimax-m2.7", "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"])
@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.31.0"), ("sglang", "0.5.23")])
def test_experts_in_blocks_are_not_cut(model, engine, version, monkeypatch):
    words = ("--box", H200, "--engine", engine, "--engine-version", version)
    shown = page(monkeypatch, model, *words)
    assert "TP 8 not offered" in shown
    assert f"constraints/{engine}-block-fp8-split" in shown
    made = recipe(model, H200, engine=engine, engine_version=version)
    flag = {"vllm": "--enable-expert-parallel", "sglang": "--ep-size"}[engine]
    assert flag in settings(made)
    assert check(made).verdict == "accepted"
    without = tuple(setting for setting in made.arguments if setting.name != flag)
    verdict = check(made.model_copy(update={"arguments": without}))
    assert any(f"{engine}-block-fp8-split" in refusal.message for refusal in verdict.refusals)


def test_data_parallel_ranks_divide_experts_too():
    made = recipe("minimax-m2.7", H200, engine="vllm", engine_version="0.31.0", tensor_parallel=4)
    assert not _refused(recipe_situation(made))
    spread = changed(made, "--data-parallel-size", "2")
    assert _refused(recipe_situation(spread)) == ["vllm-block-fp8-split"]


def test_what_the_newest_release_refines_is_warned_of_and_runs(monkeypatch):
    shown = page(monkeypatch, "minimax-m2.7", "--box", H200, "--engine", "vllm", "--engine-version", "0.32.0")
    assert "constraints/vllm-block-fp8-triton-only" in shown
    made = recipe("minimax-m2.7", H200, engine="vllm", engine_version="0.32.0")
    assert settings(made)["--tensor-parallel-size"] == "8"
    assert any("vllm-block-fp8-triton-only" in note for note in made.notes)
    assert any("vllm-block-fp8-triton-only" in remark for remark in check(made).remarks)


@pytest.mark.parametrize(
    ("goal", "tensor", "pipeline", "expert"),
    [
        ({"expert_parallel": True}, 8, 1, True),
        ({"tensor_parallel": 4, "pipeline_parallel": 2}, 4, 2, False),
        ({"tensor_parallel": 4}, 4, 1, False),
    ],
)
def test_each_split_can_be_asked_for(goal, tensor, pipeline, expert):
    made = planned("minimax-m2.7", H200, engine="vllm", engine_version="0.31.0", **goal)
    assert made.fits
    assert (made.parallel.tensor, made.parallel.pipeline, made.parallel.expert) == (tensor, pipeline, expert)


def test_a_split_that_is_asked_for_and_refused_says_why():
    made = planned("minimax-m2.7", H200, engine="vllm", engine_version="0.31.0", tensor_parallel=8)
    assert [no.code for no in made.objections] == ["constraint"]
    assert "--expert-parallel" in (made.objections[0].remedy or "")


# ---- attention backends ----


def test_a_shared_cache_takes_a_backend_that_returns_the_log_sum_exp():
    """constraints/sglang-dcp-needs-lse."""
    made = recipe("kimi-k2.6", SM120, engine="sglang", decode_context_parallel=8)
    assert settings(made)["--attention-backend"] == "flashinfer"
    verdict = check(changed(made, "--attention-backend", "triton"))
    assert any("sglang-dcp-needs-lse" in refusal.message for refusal in verdict.refusals)
    assert settings(recipe("kimi-k2.6", SM120, engine="sglang"))["--attention-backend"] == "triton"


def test_sparse_mla_on_b200_takes_the_type_of_its_fast_backend():
    """constraints/vllm-sm10-sparse-mla-packed."""
    made = recipe("glm-5.2", B200, engine="vllm")
    assert settings(made)["--kv-cache-dtype"] == "fp8_e4m3"
    packed = changed(made, "--kv-cache-dtype", "fp8_ds_mla")
    assert any("vllm-sm10-sparse-mla-packed" in remark for remark in check(packed).remarks)
    named = changed(packed, "--attention-backend", "FLASHINFER_MLA_SPARSE")
    assert any("vllm-sm10-sparse-mla-packed-backend" in refusal.message for refusal in check(named).refusals)


def test_drift_under_a_shared_cache_is_said_before_it_is_relied_on():
    """constraints/vllm-dcp-kimi-drift."""
    made = recipe("kimi-k2.6", SM120, engine="vllm", decode_context_parallel=8)
    assert any("41623" in source for row in catalog.constraints("vllm") for source in row.sources)
    assert any("vllm-dcp-kimi-drift" in note for note in made.notes)
    assert any("vllm-dcp-kimi-drift" in remark for remark in check(made).remarks)


def test_sparse_mla_of_another_architecture_is_no_use_there():
    """constraints/sglang-sm12-sparse-mla-glm-only."""
    made = planned("deepseek-v3.2", SM120, engine="sglang")
    assert any("sglang-sm12-sparse-mla-glm-only" in no.message for no in made.objections)


def _refused(situation: Situation | None) -> list[str]:
    assert situation is not None
    return [breach.row.id for breach in breaches(situation) if breach.refused]

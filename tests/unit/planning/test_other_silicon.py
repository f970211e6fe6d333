"""GPUs of other vendors: what runs there, what memory they have, and what is said where nothing was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.base.units import GIB
from upright.engines import engine_named
from upright.facts import catalog
from upright.planning.speed import speed_band
from upright.planning.speed.rows import choose_row, interconnect_of, speed_row
from upright.proof.kernels.targets import of_capability

OTHERS = [row.id for row in catalog.gpus() if row.vendor != "nvidia"]


def asked(*words: str) -> dict:
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return json.loads(done.stdout)["plans"][0]


def test_every_gpu_that_published_runs_name_has_a_row():
    named = {row.gpu for row in catalog.measurements() if row.id.startswith("s")} - {"none"}
    assert {name for name in named if catalog.find("gpus", name) is None} == set()


@pytest.mark.parametrize("gpu", OTHERS)
def test_a_plan_there_is_a_band_or_says_what_measures_it(gpu: str):
    plan = asked("plan", "gpt-oss-20b", "--box", gpu, "--context", "8k")
    unknown = [note["message"] for note in plan["notes"] if note["code"] == "speed-unknown"]
    assert (plan["speed"] is not None) != bool(unknown)
    held = not catalog.gpu(gpu).unified_memory or catalog.gpu(gpu).memory_bytes > 12 * GIB
    assert held is (not plan["objections"])
    assert not held or all("upright tools calibrate" in message for message in unknown)


@pytest.mark.parametrize("gpu", [name for name in OTHERS if name.startswith("apple")])
def test_macos_gives_the_gpu_a_part_and_engines_run_there(gpu: str):
    row = catalog.gpu(gpu)
    assert row.unified_memory
    assert 0.66 < row.memory_bytes / GIB / row.memory_gb.value < 0.91
    plan = asked("plan", "gpt-oss-20b", "--box", f"1x-{gpu}", "--context", "8k")
    assert "apple" in engine_named(plan["engine"]).runs_on
    budget = next(budget for budget in plan["budgets"] if budget["device"] == "gpu0")
    assert budget["capacity_bytes"] < row.memory_bytes
    assert "macOS" in budget["why"]


def test_an_engine_without_kernels_is_refused_by_name():
    plan = asked("plan", "gpt-oss-20b", "--box", "m4-max", "--engine", "vllm", "--context", "8k")
    assert [objection["code"] for objection in plan["objections"]] == ["no-kernels"]


def test_a_model_that_no_quantisation_of_fits_there_is_told_without_a_traceback():
    plan = asked("plan", "kimi-k2.6", "--box", "apple-m3-ultra-96gb")
    assert plan["objections"]


def test_constants_of_nvidia_gpus_speak_of_no_others():
    for name in ("gfx942", "gfx950", "gfx1151"):
        for engine in ("vllm", "sglang", "llama.cpp", "ik_llama.cpp"):
            chosen = choose_row(engine, None, name, "nvlink")
            assert chosen is None or not chosen.tells or chosen.row.capability.startswith("==gfx"), (engine, name)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("gpu", ["mi300x", "mi355x", "h200-sxm", "a100-sxm-80gb", "b200-sxm"])
def test_experts_that_the_gpu_cannot_multiply_are_said_to_be_unpacked(gpu: str, engine: str):
    plan = asked("plan", "nvidia/Qwen3.6-35B-A3B-NVFP4", "--box", f"8x-{gpu}", "--engine", engine)
    told = [note for note in plan["notes"] if "-nvfp4-" in note["message"]]
    assert bool(told) is (gpu != "b200-sxm")


@pytest.mark.parametrize(("engine", "users"), [("vllm", "1"), ("vllm", "16"), ("sglang", "1")])
def test_weights_that_are_unpacked_there_have_no_speed_and_are_not_taken_for_it(engine: str, users: str):
    unpacked = asked(
        "plan", "nvidia/DeepSeek-R1-0528-NVFP4-v2", "--box", "8x-mi300x", "--engine", engine, "--users", users
    )
    assert unpacked["speed"] is None
    assert any("unpacked on this GPU" in note["message"] for note in unpacked["notes"])
    chosen = asked("plan", "deepseek-r1", "--box", "8x-mi300x", "--users", users)
    assert "NVFP4" not in chosen["model"]


def test_a_generation_without_a_measurement_is_planned_by_its_sibling_at_the_error_that_such_plans_have():
    for box, row in (("1x-a100-80gb", "vllm-nvlink"), ("2x-rtx-4090", "vllm-sm120-pcie")):
        speed = asked("plan", "qwen3-30b-a3b-fp8", "--box", box, "--engine", "vllm", "--context", "8k")["speed"]
        assert (speed["row"], speed["basis"]) == (row, "derived"), box
        assert "runs on GPUs of a generation without constants" in speed["why"]
        assert "another GPU architecture" not in speed["why"]
        across = catalog.get("transfers", "architecture-decode").errors
        assert speed["full"]["high"] / speed["full"]["low"] == pytest.approx(across.high / across.low, rel=0.02)


def test_of_a_sibling_that_nobody_was_held_against_nothing_is_told():
    plan = asked("plan", "gpt-oss-120b", "--box", "8x-mi355x", "--engine", "vllm", "--context", "4k")
    [why] = [note["message"] for note in plan["notes"] if note["code"] == "speed-unknown"]
    assert "no measurement of vllm on" in why


def test_runs_that_lie_too_far_apart_are_said_to(monkeypatch):
    monkeypatch.setattr(speed_band, "WIDEST", 2.0)
    plan = asked(
        "plan", "deepseek-v3.1", "--box", "8x-mi300x", "--engine", "sglang", "--context", "4k", "--users", "100"
    )
    [why] = [note["message"] for note in plan["notes"] if note["code"] == "speed-unknown"]
    assert "speeds/sglang-cdna3 was fitted on lie too far apart for a band" in why


def test_eight_instincts_talk_over_infinity_fabric():
    box = catalog.box_record("8x-mi300x")
    assert {link.path for link in box.links} == {"XGMI"}
    assert interconnect_of(box, 8) == "nvlink"


def test_containers_are_not_written_for_gpus_that_their_toolkit_does_not_know():
    words = ["render", "gpt-oss-20b", "--box", "8x-mi300x", "--context", "8k", "--to"]
    refused = CliRunner().invoke(cli, [*words, "docker"])
    assert "gfx942" in str(refused.exception)
    assert CliRunner().invoke(cli, [*words, "shell"]).exit_code == 0


def test_kernels_are_compiled_for_nvidia_only():
    with pytest.raises(Exception, match="gfx942"):
        of_capability("gfx942")


@pytest.mark.parametrize("model", ["deepseek-v3.2", "deepseek-v4-flash", "kimi-k2.6"])
@pytest.mark.parametrize("box", ["8x-mi300x", "8x-mi355x"])
def test_amd_recipes_switch_its_kernels_on_and_take_a_cache_type_that_its_backends_have(model: str, box: str):
    """ROCM_AITER_MLA_SPARSE has no packed fp8 cache; DeepSeek V4's own backend has nothing else."""
    recipe = json.loads(CliRunner().invoke(cli, ["render", model, "--box", box, "--engine", "vllm", "--json"]).stdout)
    variables = {setting["name"]: setting["value"] for setting in recipe["environment"]}
    (cache_type,) = [s["value"] for s in recipe["arguments"] if s["name"] == "--kv-cache-dtype"]
    assert variables["VLLM_ROCM_USE_AITER"] == "1"
    assert (cache_type == "fp8_ds_mla") == (model == "deepseek-v4-flash")


def test_a_persons_own_constants_of_one_generation_do_not_hide_what_is_known_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = speed_row("vllm-nvlink").model_copy(update={"id": "mine", "capability": "==8.6", "fitted_on": ()})
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    file = tmp_path / "catalog" / "speeds" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([mine.model_dump(mode="json", exclude={"owner", "file"}, exclude_none=True)]))
    assert choose_row("vllm", None, "8.6", "one").row.id == "mine"
    assert asked("plan", "qwen3-30b-a3b", "--box", "1x-a100-80gb", "--engine", "vllm")["speed"]["row"] == "vllm-nvlink"

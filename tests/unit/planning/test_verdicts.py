"""A kernel that does not fit is an objection of the plans that would launch it, and of no others."""

from __future__ import annotations

from upright import Goal
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.kernel import KernelVerdict
from upright.planning.choosing import plan

BOX = catalog.box_record("8x-rtx-pro-6000-server")
K26 = records(catalog.model("kimi-k2.6"))[0]
NO = KernelVerdict(
    path="mla-decode",
    kernel="_fwd_grouped_kernel_stage1",
    engine="vllm",
    engine_version="0.32.0",
    target="sm_120",
    verdict="does-not-fit",
    kv_dtype="float8_e4m3fn",
    launch="head 576/512",
    needed_bytes=102_400,
    limit_bytes=101_376,
    short_bytes=1_024,
    why="needs 102,400 bytes of shared memory, sm_120 has 101,376",
    remedy="--kv-dtype bfloat16",
)


def codes(kv_dtype: str, engine: str = "vllm", version: str = "0.32.0", verdict: KernelVerdict = NO) -> list[str]:
    goal = Goal(engine=engine, engine_version=version, kv_dtype=kv_dtype)
    return [each.code for each in plan(BOX, K26, goal, verdicts=[verdict])[0].objections]


def test_the_plan_that_would_launch_it_objects_with_bytes_and_remedy():
    goal = Goal(engine="vllm", engine_version="0.32.0", kv_dtype="fp8")
    assert [each.code for each in plan(BOX, K26, goal)[0].objections] == ["cache-not-supported"]
    found = plan(BOX, K26, goal, verdicts=[NO])[0]
    assert not found.fits
    assert [(each.code, each.short_bytes, each.remedy) for each in found.objections] == [
        ("kernel-too-large", 1_024, "--kv-dtype bfloat16")
    ]


def test_other_caches_versions_and_engines_do_not():
    assert codes("fp8") == ["kernel-too-large"]
    assert codes("bf16") == []
    assert codes("fp8", version="0.19.1") == []
    assert "kernel-too-large" not in codes("fp8_e4m3", engine="sglang", version="0.5.23")


def test_a_kernel_that_was_compiled_is_known_better_than_the_catalogue_knows_it():
    assert codes("fp8", verdict=NO.model_copy(update={"verdict": "fits"})) == []
    assert codes("fp8", verdict=NO.model_copy(update={"verdict": "could-not-determine"})) == ["cache-not-supported"]

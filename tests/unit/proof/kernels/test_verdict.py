"""Outcomes -> verdicts, without a compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from upright.engines.facets.kernels import FP8, Shapes
from upright.facts.records.kernel import KernelCheck, KernelVerdict
from upright.proof.kernels.capture import kernel_route
from upright.proof.kernels.compile import CompileOutcome
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget
from upright.proof.kernels.verdicts import launch_verdicts
from upright.proof.kernels.verdicts import verdict_of as verdict

SOURCE = EngineSource("vllm", "0.32.0", Path("nowhere"), "a test")
SM120 = CompileTarget(120, 101376, "a test")
SHAPES = Shapes(8, 1, 576, 512)
MLA = kernel_route("vllm", "mla-decode")


def judged(outcome: CompileOutcome, target: CompileTarget = SM120) -> KernelVerdict:
    return verdict(outcome, kernel_route("vllm", "mla-decode"), SHAPES, SOURCE, target)


def checked(*verdicts: KernelVerdict) -> KernelCheck:
    facts = {"model": "m", "box": None, "engine": "vllm", "engine_version": None, "engine_source": "a test"}
    return KernelCheck(**facts, triton="t", target="sm_120", limit_bytes=101376, verdicts=verdicts)


def test_the_limit_itself_fits_and_one_byte_more_does_not() -> None:
    assert judged(CompileOutcome("k", shared_bytes=101376)).verdict == "fits"
    over = judged(CompileOutcome("k", shared_bytes=101377))
    assert (over.verdict, over.short_bytes) == ("does-not-fit", 1)


def test_what_is_unknown_is_never_fits() -> None:
    failed = judged(CompileOutcome("k", error="the compiler crashed (SIGABRT)"))
    assert (failed.verdict, failed.why) == ("could-not-determine", "the compiler crashed (SIGABRT)")
    assert judged(CompileOutcome("k")).verdict == "could-not-determine"
    nowhere = judged(CompileOutcome("k", shared_bytes=1), CompileTarget(95, None, "no catalogue row knows it"))
    assert (nowhere.verdict, nowhere.why) == ("could-not-determine", "no catalogue row knows it")


def test_tensor_memory_counts_too() -> None:
    over = judged(CompileOutcome("k", shared_bytes=1024, tensor_memory_columns=1024))
    assert over.verdict == "does-not-fit"
    assert "tensor memory" in over.why


def test_the_worst_verdict_is_the_answer() -> None:
    fits, not_, unknown = (judged(CompileOutcome("k", shared_bytes=n)) for n in (1, 200000, None))
    assert checked(fits, fits).answer == "fits"
    assert checked(fits, unknown).answer == "could-not-determine"
    assert checked(fits, unknown, not_).answer == "does-not-fit"
    assert checked().answer == "could-not-determine"


def test_of_an_autotuned_kernel_one_configuration_that_fits_is_enough() -> None:
    def answered(*sizes: int | None) -> list[KernelVerdict]:
        outcomes = [CompileOutcome("k", shared_bytes=size, group=1) for size in sizes]
        return launch_verdicts([*outcomes, CompileOutcome("other", shared_bytes=1)], MLA, SHAPES, SOURCE, SM120)

    tuned, other = answered(90_000, 200_000, 40_000)
    assert (tuned.verdict, tuned.needed_bytes, other.kernel) == ("fits", 40_000, "other")
    assert tuned.why.startswith("2 of 3 configurations fit, with 40,000 to 90,000 of 101,376 bytes")
    assert tuned.why.endswith("; the autotuner passes over the others")
    assert "passes over" not in answered(90_000, 40_000)[0].why
    none, _ = answered(200_000, 150_000)
    assert (none.verdict, none.short_bytes) == ("does-not-fit", 150_000 - 101_376)
    assert none.why.endswith("with the least of 2 configurations")
    assert answered(200_000, None)[0].verdict == "could-not-determine"


def test_a_plan_takes_a_no_as_an_objection_with_its_remedy() -> None:
    refused = judged(CompileOutcome("k", shared_bytes=102400)).model_copy(update={"remedy": "--kv-dtype bfloat16"})
    objection = refused.objection()
    assert objection is not None
    assert (objection.code, objection.short_bytes, objection.remedy) == (
        "kernel-too-large",
        1024,
        "--kv-dtype bfloat16",
    )
    assert judged(CompileOutcome("k", shared_bytes=1)).objection() is None
    assert judged(CompileOutcome("k", error="crashed")).objection() is None


def test_a_verdict_concerns_its_engine_version_and_cache_type() -> None:
    fp8 = verdict(
        CompileOutcome("k", shared_bytes=1),
        kernel_route("vllm", "mla-decode"),
        replace(SHAPES, kv_dtype=FP8),
        SOURCE,
        SM120,
    )
    assert fp8.concerns("vllm", "0.32.0", "fp8")
    assert fp8.concerns("vllm", None, "fp8_e4m3")
    assert not fp8.concerns("vllm", "0.33.0", "fp8")
    assert not fp8.concerns("sglang", "0.32.0", "fp8")
    assert not fp8.concerns("vllm", "0.32.0", "bf16")
    assert judged(CompileOutcome("k", shared_bytes=1)).concerns("vllm", "0.32.0", "auto")


def test_a_backend_that_was_not_judged_is_named() -> None:
    """On SM 10.0 no row says that vLLM's dense MLA is Triton's."""
    from upright.facts.catalog import model
    from upright.proof.kernels.check import _not_judged

    shape = model("kimi-k2.6").shape
    assert shape is not None
    here, there = (list(_not_judged(shape.attention, SOURCE, CompileTarget(sm, 101376, "a test"))) for sm in (120, 100))
    assert not [line for line in here if line.startswith("MLA decode")]
    assert [line for line in there if line.startswith("MLA decode: which backend vllm takes on SM 10.0 is not known")]


def test_the_page_does_not_say_fits_of_what_was_not_judged() -> None:
    import io

    from rich.console import Console

    from upright.app.pages.kernels_page import check_page

    whole = checked(judged(CompileOutcome("k", shared_bytes=1)))
    for found, words in (
        (whole, ": fits"),
        (whole.model_copy(update={"not_judged": ("x",)}), "what was judged fits"),
    ):
        text = io.StringIO()
        check_page(Console(file=text, width=200), found)
        assert words in text.getvalue().splitlines()[0]

"""The figures: what engines ask for on a silicon, from their own wheels, without a GPU.

Those of SGLang were seen on 8x RTX PRO 6000 (Required: 106496, Hardware limit: 101376); those of vLLM's fp8 decode were
measured by others on a GB10 (vllm-project/vllm#54013).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.conftest import Engine
from upright.engines.facets.kernels import FP8, Shapes
from upright.facts.records.kernel import KernelVerdict
from upright.proof.kernels import Compiler, target
from upright.proof.kernels.capture import kernel_route, launcher_call
from upright.proof.kernels.check import kernel_verdicts
from upright.proof.kernels.compile import CompileTask

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
LATENT = Shapes(heads=8, kv_heads=1, key_dim=576, value_dim=512)
FULL = Shapes(heads=8, kv_heads=8, key_dim=192, value_dim=128)
LATENT_FP8 = replace(LATENT, kv_dtype=FP8)
QWEN35 = Shapes(heads=6, kv_heads=2, key_dim=128, value_dim=128, kv_dtype="float32", recurrent=True)
KIMI_K3 = replace(QWEN35, heads=12, kv_heads=12)


def hungriest(verdicts: list[KernelVerdict]) -> KernelVerdict:
    return max(verdicts, key=lambda one: one.needed_bytes or 0)


@pytest.mark.parametrize(
    ("name", "version", "path", "shapes", "tile", "needed_bytes"),
    [
        ("sglang", "0.5.8", "extend", LATENT, "BLOCK_M 32, BLOCK_N 64", 106496),
        ("sglang", "0.5.8.post1", "extend", LATENT, "BLOCK_M 32, BLOCK_N 64", 106496),
        ("sglang", "0.5.8", "extend", FULL, "BLOCK_M 128, BLOCK_N 64", 65536),
        ("sglang", "0.5.9", "extend", LATENT, "BLOCK_M 32, BLOCK_N 32", 71680),
        ("sglang", "0.5.9", "extend", FULL, "BLOCK_M 64, BLOCK_N 64", 49152),
        ("sglang", "0.5.23", "extend", LATENT, "BLOCK_M 32, BLOCK_N 32", 71680),
        ("sglang", "0.5.23", "extend", FULL, "BLOCK_M 64, BLOCK_N 64", 49152),
        ("sglang", "0.5.8", "decode", LATENT, "BLOCK_N 32, BLOCK_H 16", 89088),
        ("sglang", "0.5.23", "decode", LATENT, "BLOCK_N 32, BLOCK_H 16", 63488),
        ("sglang", "0.5.23", "prefill", replace(FULL, key_dim=128), "BLOCK_M 128, BLOCK_N 128", 65536),
        ("sglang", "0.5.23", "prefill", replace(FULL, key_dim=256, value_dim=256), "BLOCK_M 128, BLOCK_N 128", 163840),
        ("vllm", "0.32.0", "mla-decode", LATENT, "BLOCK_N 32, BLOCK_H 16", 63488),
        ("vllm", "0.32.0", "mla-decode", LATENT_FP8, "BLOCK_N 32, BLOCK_H 16", 102400),
        ("vllm", "0.32.0", "gdn-decode", QWEN35, "state float32; BV 32, 1 warps, 3 stages", 64),
        ("sglang", "0.5.23", "gdn-decode", QWEN35, "state float32; BV 32, 1 warps, 3 stages", 64),
        ("sglang", "0.5.23", "gdn-prefill", QWEN35, "BV 32, 4 warps, 2 stages", 41220),
        ("sglang", "0.5.23", "gdn-output", QWEN35, "BV 64, 4 warps, 2 stages", 34816),
        ("vllm", "0.32.0", "kda-decode", KIMI_K3, "state float32; BV 32, 4 warps, 2 stages", 512),
    ],
)
def test_bytes_on_sm120(
    engine: Engine, compiler: Compiler, name: str, version: str, path: str, shapes: Shapes, tile: str, needed_bytes: int
) -> None:
    verdicts = kernel_verdicts([(kernel_route(name, path), shapes)], engine(name, version), target("sm_120"), compiler)
    found = hungriest(verdicts)
    assert tile in found.launch
    assert (found.needed_bytes, found.limit_bytes) == (needed_bytes, 101376)
    assert found.verdict == ("fits" if needed_bytes <= 101376 else "does-not-fit")
    assert found.short_bytes == (needed_bytes - 101376 if needed_bytes > 101376 else None)


@pytest.mark.parametrize(("shapes", "needed_bytes"), [(LATENT, 59392), (LATENT_FP8, 83968)])
def test_one_stage_of_vllms_decode(engine: Engine, compiler: Compiler, shapes: Shapes, needed_bytes: int) -> None:
    asked = launcher_call(kernel_route("vllm", "mla-decode"), engine("vllm", "0.32.0").root, shapes)
    task = CompileTask(asked, kernel="_fwd_grouped_kernel_stage1", variants=({"num_stages": 1},))
    ((found,),) = compiler.outcomes([task], target("sm_120"))
    assert (found.shared_bytes, found.num_stages, found.error) == (needed_bytes, 1, None)


@pytest.mark.parametrize("silicon", ["sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("name", "version", "path", "shapes"),
    [("sglang", "0.5.8", "extend", LATENT), ("vllm", "0.32.0", "mla-decode", LATENT_FP8)],
)
def test_hopper_and_b200_fit_where_sm120_does_not(
    engine: Engine, compiler: Compiler, silicon: str, name: str, version: str, path: str, shapes: Shapes
) -> None:
    verdicts = kernel_verdicts([(kernel_route(name, path), shapes)], engine(name, version), target(silicon), compiler)
    assert {one.verdict for one in verdicts} == {"fits"}
    assert {one.limit_bytes for one in verdicts} == {232448}


@pytest.mark.parametrize("silicon", ["sm_89", "sm_121"])
def test_other_cards_with_99_kib(engine: Engine, compiler: Compiler, silicon: str) -> None:
    verdicts = kernel_verdicts(
        [(kernel_route("vllm", "mla-decode"), LATENT_FP8)], engine("vllm", "0.32.0"), target(silicon), compiler
    )
    assert (hungriest(verdicts).needed_bytes, hungriest(verdicts).verdict) == (102400, "does-not-fit")


@pytest.mark.parametrize("kv_dtype", ["bfloat16", FP8])
@pytest.mark.parametrize("path", ["unified-prefill", "unified-decode"])
def test_vllms_unified_attention_fits(engine: Engine, compiler: Compiler, path: str, kv_dtype: str) -> None:
    shapes = Shapes(heads=8, kv_heads=1, key_dim=128, value_dim=128, kv_dtype=kv_dtype)
    verdicts = kernel_verdicts(
        [(kernel_route("vllm", path), shapes)], engine("vllm", "0.32.0"), target("sm_120"), compiler
    )
    assert {one.verdict for one in verdicts} == {"fits"}
    assert {one.kernel for one in verdicts} >= {"kernel_unified_attention"}


def test_remedies_are_compiled_before_they_are_named(engine: Engine, compiler: Compiler) -> None:
    vllm = kernel_verdicts(
        [(kernel_route("vllm", "mla-decode"), LATENT_FP8)], engine("vllm", "0.32.0"), target("sm_120"), compiler
    )
    assert hungriest(vllm).remedy == (
        "upright tools kernels patch apply vllm-mla-fp8-one-stage --engine vllm --env DIR (then 83,968 bytes); "
        "or --kv-dtype bfloat16 (then 63,488 bytes)"
    )
    sglang = kernel_verdicts(
        [(kernel_route("sglang", "extend"), LATENT)], engine("sglang", "0.5.8"), target("sm_120"), compiler
    )
    assert hungriest(sglang).remedy == (
        "upright tools kernels patch apply sglang-sm120-extend-tiles --engine sglang --env DIR (then 71,680 bytes); "
        "or sglang 0.5.9 or later"
    )

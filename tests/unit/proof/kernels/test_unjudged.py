"""Sparse and recurrent layers: what no verdict is about has a name, and only one that this version has."""

from __future__ import annotations

from pathlib import Path

import pytest

from upright.engines.facets.kernels import Shapes, recurrent_shapes
from upright.facts.records.model import LinearAttention
from upright.proof.kernels.check import unjudged_kernels
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget

SM120, SM90 = CompileTarget(120, 101376, "a test"), CompileTarget(90, 232448, "a test")
INDEXER = "vllm/model_executor/layers/sparse_attn_indexer.py"


@pytest.fixture
def source(tmp_path: Path) -> EngineSource:
    file = tmp_path / "vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm120.py"
    file.parent.mkdir(parents=True)
    file.write_text("out = flashinfer_trtllm_batch_decode_with_kv_cache_mla(query=q)\n")
    (tmp_path / INDEXER).parent.mkdir(parents=True)
    (tmp_path / INDEXER).write_text("logits = fp8_fp4_mqa_logits(q, k)\n")
    return EngineSource("vllm", "0.32.0", tmp_path, "a test")


def test_only_what_this_version_has_is_named(source: EngineSource) -> None:
    assert list(unjudged_kernels("sparse MLA", "sparse MLA", source, SM120)) == [
        "sparse MLA, attention: flashinfer_trtllm_batch_decode_with_kv_cache_mla (FlashInfer's, CUDA)",
        "sparse MLA, indexer: fp8_fp4_mqa_logits (DeepGEMM's, CUDA)",
    ]


def test_a_kernel_of_another_silicon_is_not_named(source: EngineSource) -> None:
    assert list(unjudged_kernels("sparse MLA", "sparse MLA", source, SM90)) == [
        "sparse MLA, indexer: fp8_fp4_mqa_logits (DeepGEMM's, CUDA)"
    ]


def test_where_nothing_is_found_it_says_so(source: EngineSource) -> None:
    unknown = ["recurrent layers (kda): which kernels vllm 0.32.0 launches is not known"]
    assert list(unjudged_kernels("kda", "recurrent layers (kda)", source, SM120)) == unknown


def test_the_state_of_a_published_layer_tells_its_heads() -> None:
    qwen = LinearAttention(layers=48, rule="gdn", heads=48, state_elements=786_432, conv_elements=30_720)
    state = Shapes(6, 2, 128, 128, kv_dtype="float32", recurrent=True)
    assert recurrent_shapes(qwen, 8) == state
    assert str(state).endswith("state float32")
    assert recurrent_shapes(qwen.model_copy(update={"state_elements": 786_433}), 8) is None
    assert recurrent_shapes(qwen.model_copy(update={"rule": "mamba2"}), 8) is None

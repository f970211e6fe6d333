"""vLLM's own Triton kernels: MLA decode, unified attention, and fused experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from upright.engines.facets.kernels import (
    BATCH,
    FP8,
    PAGE,
    SLOTS,
    SPLITS,
    TOKENS,
    Arguments,
    FusedExperts,
    KernelRoute,
    Shapes,
    TritonKernels,
    UnjudgedKernels,
    gated_delta_decode,
    gated_delta_prefill,
    latent_shapes,
    tensor,
)
from upright.facts.records.model import MlaAttention

_FOLDERS = ("vllm/v1/attention/ops", "vllm/attention/ops")


def _mla_decode(shapes: Shapes) -> Arguments:
    pages, key = SLOTS // PAGE, shapes.key_dim
    cache = (PAGE * key, key, key, 1)
    return {
        "q": tensor(shapes.dtype, BATCH, shapes.heads, key),
        "k_buffer": tensor(shapes.kv_dtype, pages, PAGE, 1, key, strides=cache),
        "v_buffer": tensor(shapes.kv_dtype, pages, PAGE, 1, shapes.value_dim, strides=cache),
        "o": tensor(shapes.dtype, BATCH, shapes.heads, shapes.value_dim),
        "lse": tensor(shapes.dtype, BATCH, shapes.heads),
        "req_to_token": tensor("int32", BATCH, pages),
        "b_seq_len": tensor("int32", BATCH),
        "attn_logits": tensor("float32", BATCH, shapes.heads, SPLITS, shapes.value_dim + 1),
        "num_kv_splits": SPLITS,
        "sm_scale": 0.1,
        "page_size": PAGE,
        "k_scale": tensor("float32"),
        "v_scale": tensor("float32"),
        "is_mla": True,
    }


def _unified(shapes: Shapes, *, decode: bool) -> Arguments:
    pages, tokens = SLOTS // PAGE, BATCH if decode else TOKENS
    fp8 = shapes.kv_dtype == FP8
    padded = 1 << (shapes.key_dim - 1).bit_length()
    segments: Arguments = {}
    if decode:
        segments = {
            "seq_threshold_3D": 4 * BATCH,
            "num_par_softmax_segments": 16,
            "softmax_segm_output": tensor("float32", BATCH, shapes.heads, 16, padded),
            "softmax_segm_max": tensor("float32", BATCH, shapes.heads, 16),
            "softmax_segm_expsum": tensor("float32", BATCH, shapes.heads, 16),
        }
    if fp8:
        segments["kv_quant_mode"] = {"name": "KVQuantMode.FP8_PER_TENSOR"}
    return {
        "q": tensor(shapes.dtype, tokens, shapes.heads, shapes.key_dim),
        "k": tensor(shapes.kv_dtype, pages, PAGE, shapes.kv_heads, shapes.key_dim),
        "v": tensor(shapes.kv_dtype, pages, PAGE, shapes.kv_heads, shapes.value_dim),
        "out": tensor(shapes.dtype, tokens, shapes.heads, shapes.value_dim),
        "cu_seqlens_q": tensor("int32", BATCH + 1),
        "max_seqlen_q": 1 if decode else TOKENS,
        "seqused_k": tensor("int32", BATCH),
        "max_seqlen_k": SLOTS,
        "softmax_scale": 0.1,
        "causal": True,
        "window_size": [(shapes.window_tokens or 0) - 1, 0] if shapes.window_tokens else [-1, -1],
        "block_table": tensor("int32", BATCH, pages),
        "softcap": 0,
        "q_descale": None,
        "k_descale": tensor("float32", BATCH, shapes.kv_heads) if fp8 else None,
        "v_descale": tensor("float32", BATCH, shapes.kv_heads) if fp8 else None,
        **segments,
    }


def _unified_decode(shapes: Shapes) -> Arguments:
    return _unified(shapes, decode=True)


def _unified_prefill(shapes: Shapes) -> Arguments:
    return _unified(shapes, decode=False)


def _kda_decode(shapes: Shapes) -> Arguments:
    heads, key = shapes.heads, shapes.key_dim
    return {
        "mixed_qkv": tensor(shapes.dtype, BATCH, heads * (2 * key + shapes.value_dim)),
        "raw_g": tensor(shapes.dtype, 1, BATCH, heads, key),
        "raw_beta": tensor(shapes.dtype, 1, BATCH, heads),
        "A_log": tensor("float32", heads),
        "dt_bias": tensor("float32", heads * key),
        "lower_bound": -5.0,
        "initial_state": tensor(shapes.kv_dtype, 4 * BATCH, heads, shapes.value_dim, key),
        "state_indices": tensor("int32", BATCH),
        "out": tensor(shapes.dtype, 1, BATCH, heads, shapes.value_dim),
    }


def _latent(layer: MlaAttention, devices: int, kv_dtype: str) -> Iterator[tuple[str, Shapes]]:
    yield "mla-decode", latent_shapes(layer, devices, kv_dtype)


def _files(name: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for folder in _FOLDERS)


_FLA = ("vllm/third_party/flash_linear_attention/ops", "vllm/model_executor/layers/fla/ops")
_K3 = "vllm/models/kimi_k3/nvidia"
_NO_WAY = "Triton's, no way is known here"
_UNJUDGED = (
    UnjudgedKernels(
        "sparse MLA", "attention", ("flashinfer_trtllm_batch_decode_with_kv_cache_mla",),
        ("vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm120.py",), "FlashInfer's, CUDA", (12,),
    ),
    UnjudgedKernels(
        "sparse MLA", "attention", ("triton_convert_req_index_to_global_index",),
        ("vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm120.py",), _NO_WAY, (12,),
    ),
    UnjudgedKernels(
        "sparse MLA", "indexer", ("fp8_fp4_mqa_logits", "fp8_fp4_paged_mqa_logits"),
        ("vllm/model_executor/layers/sparse_attn_indexer.py",), "DeepGEMM's, CUDA",
    ),
    UnjudgedKernels(
        "sparse MLA", "indexer", ("top_k_per_row_prefill", "indexer_k_quant_and_cache"),
        ("vllm/model_executor/layers/sparse_attn_indexer.py",), "vLLM's own, CUDA",
    ),
    UnjudgedKernels(
        "compressed attention", "attention", ("flashinfer_trtllm_batch_decode_sparse_mla_dsv4",),
        ("vllm/models/deepseek_v4/nvidia/flashinfer_sparse.py",), "FlashInfer's, CUDA", (10, 12),
    ),
    UnjudgedKernels(
        "compressed attention", "compressor", ("sparse_attn_compress_cutedsl",),
        ("vllm/models/deepseek_v4/compressor.py",), "CuTe DSL's",
    ),
    UnjudgedKernels(
        "compressed attention", "compressor", ("_fused_kv_compress_norm_rope_insert_indexer_attn",),
        ("vllm/models/deepseek_v4/common/ops/fused_compress_quant_cache.py",), _NO_WAY,
    ),
    UnjudgedKernels(
        "compressed attention", "indexer", ("fp8_fp4_mqa_logits", "fp8_fp4_paged_mqa_logits"),
        ("vllm/model_executor/layers/sparse_attn_indexer.py",), "DeepGEMM's, CUDA",
    ),
    UnjudgedKernels(
        "gdn", "prefill with CUDA 13", ("fi_chunk_gated_delta_rule",),
        ("vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py",), "FlashInfer's, CUDA", (10, 12),
    ),
    UnjudgedKernels(
        "gdn", "prefill with CUDA 12", ("chunk_fwd_kernel_o",),
        tuple(f"{folder}/chunk_o.py" for folder in _FLA), "Triton's and autotuned, over tiles that it asks the GPU for",
    ),
    UnjudgedKernels(
        "gdn", "convolution", ("_causal_conv1d_fwd_kernel", "_causal_conv1d_update_kernel"),
        ("vllm/model_executor/layers/mamba/ops/causal_conv1d.py",), _NO_WAY,
    ),
    UnjudgedKernels(
        "kda", "prefill", ("_flashkda_C",), (f"{_K3}/kda.py",), "FlashKDA's, CUDA", (9, 10, 12),
    ),
    UnjudgedKernels(
        "kda", "decode", ("fused_kda_decode",), (f"{_K3}/kda.py",), "vLLM's own, CUDA", (9, 10, 12),
    ),
    UnjudgedKernels(
        "mamba2", "prefill", ("_chunk_scan_fwd_kernel",),
        ("vllm/model_executor/layers/mamba/ops/ssd_chunk_scan.py",), _NO_WAY,
    ),
    UnjudgedKernels(
        "mamba2", "decode", ("_selective_scan_update_kernel",),
        ("vllm/model_executor/layers/mamba/ops/mamba_ssm.py",), _NO_WAY,
    ),
)  # fmt: skip
_UNIFIED = KernelRoute(
    name="unified-prefill",
    files=_files("triton_unified_attention.py"),
    launcher="unified_attention",
    arguments=_unified_prefill,
    why="TRITON_ATTN prefill",
)
KERNELS = TritonKernels(
    package="vllm",
    ways=(
        KernelRoute(
            name="mla-decode",
            files=_files("triton_decode_attention.py"),
            launcher="decode_attention_fwd",
            arguments=_mla_decode,
            why="TRITON_MLA decode",
            tile=(("BLOCK_H",), ("BLOCK_N",)),
        ),
        _UNIFIED,
        replace(_UNIFIED, name="unified-decode", arguments=_unified_decode, why="TRITON_ATTN decode"),
        KernelRoute(
            name="gdn-decode",
            files=tuple(f"{folder}/fused_recurrent.py" for folder in _FLA),
            launcher="fused_recurrent_gated_delta_rule_packed_decode",
            arguments=gated_delta_decode,
            why="Gated DeltaNet decode",
        ),
        KernelRoute(
            name="gdn-prefill",
            files=tuple(f"{folder}/chunk_delta_h.py" for folder in _FLA),
            launcher="chunk_gated_delta_rule_fwd_h",
            arguments=gated_delta_prefill,
            why="Gated DeltaNet prefill, the states between chunks",
        ),
        KernelRoute(
            name="kda-decode",
            files=(f"{_K3}/ops/third_party/kda/fused_recurrent.py",),
            launcher="fused_recurrent_kda_packed_decode",
            arguments=_kda_decode,
            why="Kimi Delta Attention decode where the fused one is not taken",
        ),
    ),
    latent=_latent,
    grouped=("unified-prefill", "unified-decode"),
    experts=FusedExperts(
        launcher="invoke_fused_moe_triton_kernel",
        files=("vllm/model_executor/layers/fused_moe/fused_moe.py",),
        default_files=("vllm/model_executor/layers/fused_moe/fused_moe.py",),
        configurations=("vllm/model_executor/layers/fused_moe/configs",),
        tuner="benchmarks/kernels/benchmark_moe.py",
        own_folder="VLLM_TUNED_CONFIG_FOLDER",
    ),
    standins={"vllm.platforms:current_platform": "current_platform", "vllm.logger:init_logger": "get_logger"},
    real={"vllm.triton_utils:tl": "import triton.language as tl", "vllm.triton_utils:triton": "import triton"},
    settings={"vllm.envs": ("vllm.envs", False), "vllm:envs": ("vllm.envs", False)},
    latent_not_judged=("MLA prefill: FlashAttention, not Triton",),
    recurrent={"gdn": ("gdn-prefill", "gdn-decode"), "kda": ("kda-decode",)},
    unjudged=_UNJUDGED,
)

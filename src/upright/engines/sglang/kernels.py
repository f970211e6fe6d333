"""SGLang's own Triton kernels: attention by extend and decode, and fused experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from upright.engines.facets.kernels import (
    BATCH,
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
    gated_delta_output,
    gated_delta_prefill,
    latent_shapes,
    tensor,
)
from upright.facts.records.model import MlaAttention

_FOLDERS = ("sglang/kernels/ops/attention", "sglang/srt/layers/attention/triton_ops")


def _pool(shapes: Shapes) -> tuple[Arguments, Arguments]:
    """Key and value buffers; with one latent vector the value is a view of the key."""
    heads, key, value_dim = shapes.kv_heads, shapes.key_dim, shapes.value_dim
    keys = tensor(shapes.kv_dtype, SLOTS, heads, key)
    latent = heads == 1 and key > value_dim
    strides = (heads * key, key, 1) if latent else None
    return keys, tensor(shapes.kv_dtype, SLOTS, heads, value_dim, strides=strides)


def _extend(shapes: Shapes) -> Arguments:
    keys, values = _pool(shapes)
    return {
        "q_extend": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.key_dim),
        "k_extend": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.key_dim),
        "v_extend": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.value_dim),
        "o_extend": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.value_dim),
        "k_buffer": keys,
        "v_buffer": values,
        "qo_indptr": tensor("int32", BATCH + 1),
        "kv_indptr": tensor("int32", BATCH + 1),
        "kv_indices": tensor("int64", SLOTS),
        "custom_mask": None,
        "is_causal": True,
        "mask_indptr": None,
        "max_len_extend": TOKENS,
        "k_scale": 1.0,
        "v_scale": 1.0,
        "sliding_window_size": shapes.window_tokens or -1,
    }


def _decode(shapes: Shapes) -> Arguments:
    keys, values = _pool(shapes)
    return {
        "q": tensor(shapes.dtype, BATCH, shapes.heads, shapes.key_dim),
        "k_buffer": keys,
        "v_buffer": values,
        "o": tensor(shapes.dtype, BATCH, shapes.heads, shapes.value_dim),
        "kv_indptr": tensor("int32", BATCH + 1),
        "kv_indices": tensor("int64", SLOTS),
        "attn_logits": tensor("float32", BATCH, shapes.heads, SPLITS, shapes.value_dim),
        "attn_lse": tensor("float32", BATCH, shapes.heads, SPLITS),
        "num_kv_splits": tensor("int32", BATCH),
        "max_kv_splits": SPLITS,
        "sm_scale": 0.1,
        "k_scale": 1.0,
        "v_scale": 1.0,
        "has_mla": shapes.kv_heads == 1 and shapes.key_dim > shapes.value_dim,
    }


def _prefill(shapes: Shapes) -> Arguments:
    return {
        "q": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.key_dim),
        "k": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.key_dim),
        "v": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.value_dim),
        "o": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.value_dim),
        "b_start_loc": tensor("int32", BATCH),
        "b_seq_len": tensor("int32", BATCH),
        "max_input_len": TOKENS,
        "is_causal": False,
    }


def _latent(layer: MlaAttention, devices: int, kv_dtype: str) -> Iterator[tuple[str, Shapes]]:
    latent = latent_shapes(layer, devices, kv_dtype)
    yield "extend", latent
    if layer.nope_head_dim and layer.value_head_dim:
        full = layer.nope_head_dim + layer.rope_head_dim
        yield "extend", replace(latent, kv_heads=latent.heads, key_dim=full, value_dim=layer.value_head_dim)
    yield "decode", latent


def _files(name: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for folder in _FOLDERS)


_OPS = "sglang/kernels/ops/attention"
_FLA = (f"{_OPS}/fla", "sglang/srt/layers/attention/fla")
_NO_WAY = "Triton's, no way is known here"
_UNJUDGED = (
    UnjudgedKernels(
        "sparse MLA", "attention of GLM with an fp8 cache", ("trtllm_batch_decode_with_kv_cache_mla",),
        (f"{_OPS}/flash_mla_sm120.py",), "FlashInfer's, CUDA", (12,),
    ),
    UnjudgedKernels(
        "sparse MLA", "indexer", ("deepgemm_paged_mqa_logits_native",),
        ("sglang/srt/layers/attention/dsa/dsa_indexer.py",), "DeepGEMM's, CUDA",
    ),
    UnjudgedKernels(
        "compressed attention", "attention", ("_sparse_mla_sm120_paged_attention",),
        (f"{_OPS}/flash_mla_sm120.py",), "FlashInfer's, CUDA", (12,),
    ),
    UnjudgedKernels(
        "compressed attention", "attention without FlashInfer", ("_tiled_sparse_decode_kernel",),
        (f"{_OPS}/flash_mla_sm120_triton.py",),
        "Triton's and autotuned: its tile is chosen by timing on the GPU", (12,),
    ),
    UnjudgedKernels(
        "compressed attention", "indexer", ("fp8_paged_mqa_logits",),
        ("sglang/srt/layers/attention/dsv4/indexer.py",), "DeepGEMM's, CUDA",
    ),
    UnjudgedKernels(
        "gdn", "prefill", ("chunk_gated_delta_rule_fwd_kkt_solve_kernel",), (f"{_OPS}/fla/chunk_fwd.py",), _NO_WAY,
    ),
    UnjudgedKernels(
        "gdn", "convolution", ("_causal_conv1d_fwd_kernel", "_causal_conv1d_update_kernel"),
        ("sglang/kernels/ops/mamba/causal_conv1d_triton.py",), _NO_WAY,
    ),
    UnjudgedKernels(
        "kda", "prefill", ("chunk_kda",), tuple(f"{folder}/kda.py" for folder in _FLA), _NO_WAY,
    ),
    UnjudgedKernels(
        "kda", "decode", ("fused_recurrent_kda_packed_decode_kernel",),
        tuple(f"{folder}/fused_recurrent.py" for folder in _FLA), "Triton's, behind a module that only a GPU can load",
    ),
    UnjudgedKernels(
        "kda", "decode of large batches", ("kda_packed_decode",), (f"{_OPS}/kda_packed_decode.py",),
        "SGLang's own, CUDA",
    ),
)  # fmt: skip
_UTILS = "sglang.srt.utils"
KERNELS = TritonKernels(
    package="sglang",
    ways=(
        KernelRoute(
            name="extend",
            files=_files("extend_attention.py"),
            launcher="extend_attention_fwd",
            arguments=_extend,
            why="prefill with cached prefix",
            tile=(("BLOCK_M",), ("BLOCK_N", "BLOCK_N_PREFIX")),
        ),
        KernelRoute(
            name="decode",
            files=_files("decode_attention.py"),
            launcher="decode_attention_fwd",
            arguments=_decode,
            why="decode",
            tile=(("BLOCK_H",), ("BLOCK_N",)),
        ),
        KernelRoute(
            name="prefill",
            files=_files("prefill_attention.py"),
            launcher="context_attention_fwd",
            arguments=_prefill,
            why="attention without a cache (vision)",
            tile=(("BLOCK_M",), ("BLOCK_N",)),
        ),
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
            name="gdn-output",
            files=tuple(f"{folder}/chunk_o.py" for folder in _FLA),
            launcher="chunk_fwd_o",
            arguments=gated_delta_output,
            why="Gated DeltaNet prefill, the answers of the chunks",
        ),
    ),
    latent=_latent,
    grouped=("extend", "decode"),
    experts=FusedExperts(
        launcher="invoke_fused_moe_kernel",
        files=(
            "sglang/kernels/ops/moe/fused_moe_triton_kernels.py",
            "sglang/srt/layers/moe/fused_moe_triton/fused_moe_triton_kernels.py",
        ),
        default_files=(
            "sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py",
            "sglang/srt/layers/moe/fused_moe_triton/fused_moe_triton_config.py",
        ),
        configurations=(
            "sglang/srt/layers/moe/moe_runner/triton_utils/configs",
            "sglang/srt/layers/moe/fused_moe_triton/configs",
        ),
        tuner="benchmark/kernels/fused_moe_triton/tuning_fused_moe_triton.py",
        own_folder="SGLANG_MOE_CONFIG_DIR",
        block_joint=", ",
    ),
    standins={
        **{
            f"{_UTILS}:{name}": standin
            for name, standin in {
                "is_cuda": "yes",
                "is_hip": "no",
                "is_xpu": "no",
                "is_cpu": "no",
                "is_npu": "no",
                "is_musa": "no",
                "is_gfx95_supported": "no",
                "is_gfx1250_supported": "no",
                "get_device_capability": "get_device_capability",
                "get_device_sm": "get_device_sm",
                "get_device_name": "get_device_name",
                "is_sm90_supported": "is_sm90",
                "is_sm100_supported": "is_sm100",
                "is_sm120_supported": "is_sm120",
                "cpu_has_amx_support": "no",
            }.items()
        },
        "sglang.kernels.jit.utils:is_arch_support_pdl": "is_sm90_or_newer",
        "sglang.srt.runtime_context:get_exec": "server_arguments",
        "sglang.srt.server_args:get_global_server_args": "server_arguments",
        **{
            f"{folder}.{module}:{name}": standin
            for folder in ("sglang.srt.layers.quantization", "sglang.kernels.ops.quantization")
            for module, name, standin in (
                ("fp8_kernel", "scaled_fp8_quant", "scaled_fp8"),
                ("fp8_kernel", "per_token_group_quant_fp8", "grouped_fp8"),
                ("fp8_kernel", "sglang_per_token_group_quant_fp8", "grouped_fp8"),
                ("int8_kernel", "per_token_quant_int8", "per_token_int8"),
                ("int8_kernel", "per_token_group_quant_int8", "grouped_int8"),
                ("int8_kernel", "sglang_per_token_group_quant_int8", "grouped_int8"),
            )
        },
    },
    real={},
    settings={"sglang.srt.environ:envs": ("sglang.srt.environ", True)},
    recurrent={"gdn": ("gdn-prefill", "gdn-output", "gdn-decode")},
    unjudged=_UNJUDGED,
)

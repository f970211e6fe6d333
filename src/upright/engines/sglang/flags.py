"""SGLang: Plan -> `sglang.launch_server` flags, 0.5.8 to 0.5.23."""

from __future__ import annotations

import json
from collections.abc import Iterator

from upright.engines import dialects, gpu_settings, model_settings
from upright.engines.facets.flags import FlagCase, Flags
from upright.engines.facets.tiers import host_cache_settings, second_level
from upright.engines.sglang import SHARED_LATENT
from upright.engines.sglang.speculation import settings
from upright.facts.catalog import versions
from upright.facts.records.recipe import KEY_CONFIG, Setting

_CACHE_TYPES = {"bf16": "bfloat16", "fp8": "fp8_e4m3"}
_MEET = 20000
_REPORT = "Kimi K2 on SM120 report (2026-01-29)"
_COOKBOOK = "sgl-project/sglang docs/cookbook Kimi-K2.6.mdx (2026-08)"
# On each rank; it must be larger than the GPU's pool.
TIERS = second_level(
    "--enable-hierarchical-cache",
    "--hicache-size",
    "sglang/srt/mem_cache/memory_pool_host.py",
    spare=1.02,
    disk="SGLang has a third level on disk (--hicache-storage-backend file)",
)


class SglangFlags:
    """The words of SGLang's OpenAI-compatible server."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        return (
            *_where_it_serves(case),
            *_spread(case),
            *_memory(case),
            *host_cache_settings(case, TIERS),
            *_kernels(case),
            *_model(case),
            *_modalities(case),
            *_speculation(case),
            *_habits(case),
        )

    def environment(self, case: FlagCase) -> tuple[Setting, ...]:
        return gpu_settings.nccl(case.plan, case.box)

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return tuple(_notes(case))


FLAGS: Flags = SglangFlags()


def _where_it_serves(case: FlagCase) -> Iterator[Setting]:
    serving = case.serving
    if case.install is not None and case.install.module is None:
        yield Setting(name="serve", reason="SGLang's server, by its own command")
    else:
        yield Setting(name="-m", value="sglang.launch_server", reason="SGLang's server")
    yield Setting(name="--model-path", value=serving.model_path, reason=model_settings.artifact_words(case))
    yield Setting(name="--served-model-name", value=serving.served_name, reason="the name that clients use")
    yield Setting(name="--host", value=serving.host, reason="bind loopback unless told otherwise")
    yield Setting(name="--port", value=str(serving.port), reason="port of the OpenAI-compatible API")
    yield Setting(
        name="--config",
        value=KEY_CONFIG,
        reason="the API key from a file of its own: on the command line everybody on the machine could read it",
        source="sglang/srt/server_args_config_parser.py",
    )
    if case.model.revision is not None and not case.model.path:
        yield Setting(name="--revision", value=case.model.revision, reason="the commit that was read")


def _spread(case: FlagCase) -> Iterator[Setting]:
    parallel = case.plan.parallel
    # Guard: `--tp` is a mere abbreviation and `--tp-size` the flag (SGLang 0.5.23's parser).
    yield Setting(
        name="--tp-size",
        value=str(parallel.tensor * parallel.data),
        reason=f"every layer is divided over {parallel.tensor} GPU{'s' if parallel.tensor > 1 else ''}",
    )
    if parallel.pipeline > 1:
        yield Setting(name="--pp-size", value=str(parallel.pipeline), reason="layers are divided into stages")
    if parallel.data > 1:
        yield Setting(
            name="--dp-size",
            value=str(parallel.data),
            reason=f"{parallel.data} replicas of attention, each with its own users and cache, share the experts; "
            "--tp-size counts the ranks of all",
            source="sglang/srt/server_args.py at 0.5.23",
        )
        yield Setting(name="--enable-dp-attention", reason="replicas of attention alone, not of the whole model")
    if parallel.expert and (flag := case.accepted.first("--ep-size", "--expert-parallel-size")):
        yield Setting(
            name=flag,
            value=str(parallel.tensor * parallel.data),
            reason=model_settings.whole_experts_words(parallel),
            source="sglang/srt/server_args.py at 0.5.23",
        )
    if parallel.decode_context > 1 and "--dcp-size" in case.accepted:
        yield Setting(
            name="--dcp-size",
            value=str(parallel.decode_context),
            reason=f"{parallel.decode_context} ranks share one copy of the cache",
            source="sglang/srt/arg_groups/parallel_hook.py at 0.5.23",
        )
    if parallel.nodes > 1:
        serving = case.serving
        yield Setting(
            name="--nnodes", value=str(parallel.nodes), reason=f"{parallel.nodes} boxes hold the model together"
        )
        yield Setting(name="--node-rank", value=str(serving.node), reason="which of them this is")
        yield Setting(
            name="--dist-init-addr",
            value=f"{serving.leader}:{_MEET}",
            reason="where the boxes find each other",
            source="sglang/srt/server_args.py at 0.5.23",
        )
    yield from gpu_settings.custom_all_reduce_settings(
        case.plan, case.box, "--disable-custom-all-reduce", case.serving.image
    )


def _memory(case: FlagCase) -> Iterator[Setting]:
    plan = case.plan
    yield Setting(name="--context-length", value=str(plan.context_tokens), reason="the context that was planned")
    replicas = plan.parallel.data
    count = -(-model_settings.sequences(plan) // replicas)  # of each
    yield Setting(
        name="--max-running-requests",
        value=str(count * replicas),
        reason=f"requests at once: {plan.goal.users} asked for, {plan.users_at_context} fit at full context, and an "
        "agent's short side calls",
    )
    if graphs := case.accepted.first("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"):
        yield Setting(
            name=graphs,
            value=str(count),
            reason="graphs for no larger batch than can occur: each takes memory",
            source="sglang/srt/server_args.py: spelled --cuda-graph-max-bs before 0.5.14",
        )
    if plan.ubatch_tokens:
        yield Setting(
            name="--chunked-prefill-size",
            value=str(plan.ubatch_tokens * replicas),
            reason="tokens of a prompt computed at once: what the plan counted"
            + (f" for each of {replicas} replicas" if replicas > 1 else ""),
        )
    if plan.memory_fraction is not None:
        yield Setting(
            name="--mem-fraction-static",
            value=f"{plan.memory_fraction:.3f}",
            reason=f"weights and cache together: {plan.kv.low_tokens:,} tokens are sure to fit; left alone, SGLang "
            "gave the cache of a published run 0.3 GB a GPU with 20 GB free",
            source=_REPORT,
        )
    yield Setting(
        name="--kv-cache-dtype",
        value=_CACHE_TYPES.get(plan.kv.dtype, plan.kv.dtype),
        reason=f"the cache type that was planned: {plan.kv.bytes_per_token:,} bytes a token",
    )


def _kernels(case: FlagCase) -> Iterator[Setting]:
    nvfp4 = "NVFP4" in (case.model.quantisation or "").upper()
    if nvfp4:
        # Guard: `nvfp4` is no value that SGLang's parser takes; its name for these checkpoints is modelopt_fp4.
        yield Setting(
            name="--quantization",
            value="modelopt_fp4",
            reason="NVIDIA's NVFP4 checkpoints, by the name that SGLang gives them",
            source="sglang/srt/server_args.py, QUANTIZATION_CHOICES",
        )
    version = case.plan.engine_version or case.accepted.version
    row = (
        gpu_settings.compat_row("sglang", version, case.box, "dense MLA")
        if gpu_settings.dense_mla(case.model)
        else None
    )
    if case.plan.parallel.decode_context > 1 and gpu_settings.dense_mla(case.model):
        # Guard: constraints/sglang-dcp-needs-lse.
        yield Setting(
            name="--attention-backend",
            value=SHARED_LATENT,
            reason="DCP needs the log-sum-exp of each part, which Triton does not return",
            source="https://github.com/sgl-project/sglang/pull/31514",
        )
    elif row is not None and row.status == "works" and row.backend:
        yield Setting(
            name="--attention-backend",
            value=row.backend,
            reason=row.about,
            source=f"catalogue, compat/{row.id}: {row.sources[0]}",
        )
    if nvfp4 and gpu_settings.is_sm12(case.box):
        yield Setting(
            name="--moe-runner-backend",
            value="flashinfer_cutlass",
            reason="the TensorRT-LLM expert kernels are for SM 10.x",
            source="sglang, fused experts; vLLM fused_moe/experts/trtllm_*_moe.py",
        )
        yield Setting(
            name="--fp4-gemm-backend",
            value="flashinfer_cudnn",
            reason="what the published SM 12.0 run measured 5,816 tok/s with",
            source=_REPORT,
        )


def _model(case: FlagCase) -> Iterator[Setting]:
    yield from dialects.parser_settings(case, "sglang")
    yield from model_settings.remote_code_settings(case, _COOKBOOK)


def _modalities(case: FlagCase) -> Iterator[Setting]:
    if not case.model.architecture.vision:
        return
    if case.serving.vision:
        yield Setting(
            name="--mm-enable-dp-encoder",
            reason="the vision tower is small: a copy on each GPU beats dividing it",
            source=_COOKBOOK,
        )
    elif "--language-model-only" in case.accepted:
        yield Setting(
            name="--language-model-only",
            reason="text first: the vision tower and its memory are left out until text is proved",
            source="sglang 0.5.18 and newer",
        )


def _speculation(case: FlagCase) -> Iterator[Setting]:
    wanted = model_settings.draft_candidate(case)
    if wanted is not None:
        draft_candidate, source = wanted
        for setting in settings(draft_candidate, case.accepted, 0):
            named = setting.name in ("--speculative-algorithm", "--speculative-draft-model-path")
            yield setting.model_copy(update={"source": source}) if named else setting


def _habits(case: FlagCase) -> Iterator[Setting]:
    yield Setting(name="--enable-metrics", reason="counters for proofs and benchmarks", source=_COOKBOOK)
    yield Setting(
        name="--enable-cache-report", reason="usage tells how much of a prompt came from the cache", source=_COOKBOOK
    )
    if not case.serving.prefix_caching:
        yield model_settings.without_prefix_cache("--disable-radix-cache", _COOKBOOK)
    off = model_settings.non_thinking_arguments(case.row, case.plan)
    if off is not None and "--default-chat-template-kwargs" in case.accepted:
        yield Setting(
            name="--default-chat-template-kwargs",
            value=json.dumps(off, separators=(",", ":")),
            reason="too slow to think aloud: non-thinking mode",
        )


def _notes(case: FlagCase) -> Iterator[str]:
    plan, version = case.plan, case.plan.engine_version or ""
    yield from model_settings.shared_notes(case)
    yield from dialects.agent_notes(case, "sglang", "SGLang leaves the model's calls in its text")
    if gpu_settings.is_sm12(case.box) and gpu_settings.dense_mla(case.model) and versions.in_range(version, "<0.5.9"):
        yield (
            "SGLang before 0.5.9 dies on SM 12.x at the first longer prompt ('Required: 106496, Hardware limit: "
            "101376'): patch extend_attention.py (upright tools kernels patch) or take 0.5.9."
        )
    if plan.kv.dtype.startswith("fp8") and gpu_settings.is_sm12(case.box) and gpu_settings.dense_mla(case.model):
        yield "An fp8 cache with Kimi's INT4 weights was seen at 16 tok/s on SM 12.x: measure before keeping it."
    if plan.parallel.decode_context > 1 and "--dcp-size" not in case.accepted:
        yield f"SGLang {case.accepted.version} has no DCP: the plan's context will not fit."
    if case.model.architecture.vision and not case.serving.vision and "--language-model-only" not in case.accepted:
        yield "This SGLang loads the vision tower too: --language-model-only came with 0.5.18."

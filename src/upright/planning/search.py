"""Box + Model + Goal -> [Plan], best first.

Every way that the engines offer is planned by the same arithmetic: no rule of thumb decides before the bytes do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upright.errors import UsageError
from upright.planning import fraction as fractions
from upright.planning.devices import NO_GPU, gpus, same_kind
from upright.planning.kvcache import CACHE_TYPES, PACKED_SPARSE, cache_shape
from upright.planning.main_memory import MainMemoryCase, is_cpu_build, plan_in_main_memory
from upright.planning.nearest import nearest
from upright.planning.ranks import RankCase, plan_on_ranks
from upright.planning.rungs import rungs
from upright.planning.speed.predict import speed
from upright.records.box import Box
from upright.records.model import GqaAttention, MlaAttention, Model
from upright.records.plan import Goal, Objection, Parallel, Plan, Use

if TYPE_CHECKING:
    from upright.records.kernel import KernelVerdict

# Where a deployment starts if nobody says: agents carry a repository, chats a conversation, batches a page.
START_CONTEXTS: dict[Use, int] = {"coding-agent": 65_536, "chat": 32_768, "batch": 8_192, "long-documents": 131_072}
RANK_ENGINES = ("vllm", "sglang")
LAYER_ENGINES = ("llama.cpp", "ik_llama.cpp")
ENGINES = (*RANK_ENGINES, *LAYER_ENGINES)
LOADS = {"safetensors": RANK_ENGINES, "gguf": LAYER_ENGINES}
# Below this many bits a routed weight, or with experts cut out, it is not quite the same model any more: Kimi K2.6 has
# perplexity 1.84 at 4.5 bits and 2.41 at 2.6 (unsloth.ai). Such an artifact is offered, never chosen.
FAITHFUL_BITS = 3.5
NATIVE_BITS = 4.4


def plan(
    box: Box,
    model: Model,
    goal: Goal | None = None,
    *,
    choose_from: Iterable[Model] = (),
    others: Iterable[Model] = (),
    verdicts: Sequence[KernelVerdict] = (),
) -> list[Plan]:
    """Ways to stand this model on this box, best first. A plan that does not fit says why in its objections.

    `choose_from` are other artifacts, taken if the model's own weights are out of reach; `others` are only offered.
    Both are looked at only when they are needed. A kernel verdict that says no is an objection of every plan that
    would launch that kernel.
    """
    goal = goal or Goal()
    _check(goal)
    search = _Search(box, verdicts)
    artifacts, plans = [model], search.ways(model, goal)
    if not any(_within_reach(found) for found in plans):
        artifacts += choose_from
        plans += [found for other in artifacts[1:] if faithful(other) for found in search.ways(other, goal)]
    ranked = sorted(plans, key=lambda found: _order(found, artifacts, box))
    best, artifact = ranked[0], _artifact(ranked[0], artifacts)
    if best.fits:
        climb = rungs(best, artifact, lambda changed: search.best(artifact, changed))
        ranked[0] = best.model_copy(update={"rungs": climb})
    else:
        known = {found.name: found for found in (*artifacts, *choose_from, *others)}
        found = nearest(best, artifact, tuple(known.values()), search.best, search.grown if _can_grow(box) else None)
        ranked[0] = best.model_copy(update={"nearest": found})
    return ranked


def _can_grow(box: Box) -> bool:
    """Whether more of the same GPU could be put in: not where there is none, or where it is soldered to the memory."""
    devices = gpus(box)
    return bool(devices) and not any(device.unified for device in devices)


def start_context(model: Model, use: Use = "coding-agent") -> int:
    """The safe start of this use, or what the model was made for if that is less."""
    wanted = START_CONTEXTS[use]
    return min(wanted, model.architecture.context_limit_tokens or wanted)


def expert_bits(model: Model) -> float:
    """Bits of a routed weight, scales included; of any weight if there are no experts."""
    lines = [line for line in model.weights if line.group == "routed_experts"] or list(model.weights)
    parameters = sum(line.parameters for line in lines)
    return 8 * sum(line.bytes for line in lines) / parameters if parameters else 0.0


def faithful(model: Model) -> bool:
    return expert_bits(model) >= FAITHFUL_BITS


@dataclass(frozen=True)
class _Way:
    engine: str
    objections: tuple[Objection, ...] = ()


def _check(goal: Goal) -> None:
    if goal.users < 1:
        raise UsageError("a plan needs at least one user")
    if goal.context_tokens is not None and goal.context_tokens < 1:
        raise UsageError("a context has at least one token")
    if goal.engine is not None and goal.engine not in ENGINES:
        raise UsageError(f"no engine named {goal.engine}", hint=f"one of {', '.join(ENGINES)}")
    if goal.kv_dtype is not None and goal.kv_dtype not in CACHE_TYPES:
        raise UsageError(f"no cache type named {goal.kv_dtype}", hint=f"one of {', '.join(CACHE_TYPES)}")
    if goal.memory_fraction is not None and not 0.05 <= goal.memory_fraction <= 1:
        raise UsageError("the memory fraction is a share of the GPU: 0.05 to 1", hint="0.90 is a safe start")


class _Search:
    """One box and what was planned on it: digests are made once."""

    def __init__(self, box: Box, verdicts: Sequence[KernelVerdict] = ()) -> None:
        self._box = box
        self._verdicts = verdicts
        self._box_reference = box.reference
        self._references: dict[str, str] = {}

    def best(self, model: Model, goal: Goal) -> Plan:
        return min(self.ways(model, goal), key=lambda found: _order(found, [model], self._box))

    def grown(self, count: int) -> Callable[[Model, Goal], Plan]:
        """Plans on a box with this many of the first GPU."""
        first = self._box.gpus[0]
        more = tuple(first.model_copy(update={"index": index}) for index in range(count))
        return _Search(self._box.model_copy(update={"gpus": more}), self._verdicts).best

    def ways(self, model: Model, goal: Goal) -> list[Plan]:
        context = goal.context_tokens or start_context(model, goal.use)
        if model.source not in self._references:
            self._references[model.source] = model.reference
        made_from = (self._box_reference, self._references[model.source])
        return [self._way(way, model, goal, context, made_from) for way in _engines(model, goal)]

    def _way(self, way: _Way, model: Model, goal: Goal, context: int, made_from: tuple[str, ...]) -> Plan:
        version = goal.engine_version or _installed(self._box, way.engine)
        if way.engine in LAYER_ENGINES:
            from upright.planning.layers import LayerCase, plan_in_layers

            dtype = goal.kv_dtype or "f16"
            done = plan_in_layers(LayerCase(self._box, model, goal, way.engine, version, context, dtype, made_from))
        else:
            done = _on_ranks(self._box, model, goal, way.engine, version, context, made_from)
        objections = (*way.objections, *self._kernels(done), *done.objections)
        return done.model_copy(update={"objections": objections, "speed": speed(done, model, self._box)})

    def _kernels(self, done: Plan) -> Iterator[Objection]:
        for verdict in self._verdicts:
            if verdict.concerns(done.engine, done.engine_version, done.kv.dtype) and (no := verdict.objection()):
                yield no


def _engines(model: Model, goal: Goal) -> Iterator[_Way]:
    able = LOADS[model.format]
    if goal.engine is not None and goal.engine not in able:
        message = f"{goal.engine} does not load {model.format}: {model.name} is for {' or '.join(able)}"
        yield _Way(goal.engine, (Objection(code="wrong-format", message=message, remedy=f"--engine {able[0]}"),))
        return
    for engine in able:
        if goal.engine in (None, engine) and not (model.ik_only and engine == "llama.cpp" and goal.engine is None):
            yield _Way(engine)


def _on_ranks(
    box: Box, model: Model, goal: Goal, engine: str, version: str | None, context: int, made_from: tuple[str, ...]
) -> Plan:
    """The smallest context parallelism that holds the goal; with none that does, the largest."""
    devices = gpus(box)
    if not devices and is_cpu_build(engine, version):
        dtype = goal.kv_dtype or _usual_dtype(model, engine)
        return plan_in_main_memory(MainMemoryCase(box, model, goal, version, context, dtype, made_from))
    tensor = goal.tensor_parallel or _tensor(model, len(devices))
    pipeline = goal.pipeline_parallel or 1
    problems = _rank_problems(model, goal, engine, len(devices), tensor, pipeline, same=same_kind(devices))
    dtype = goal.kv_dtype or _usual_dtype(model, engine)
    done: Plan | None = None
    for share in _shares(model, goal, engine, tensor):
        devices_used = devices[: tensor * pipeline] or (NO_GPU,)
        fraction, why = fractions.choose(engine, goal.memory_fraction, devices_used[0], tensor)
        parallel = Parallel(tensor=tensor, pipeline=pipeline, decode_context=share)
        case = RankCase(
            box, model, goal, engine, version, devices_used, parallel, context, dtype, fraction, why, made_from
        )
        done = plan_on_ranks(case)
        if done.fits or any(objection.code == "weights-too-large" for objection in done.objections):
            break
    assert done is not None
    return done.model_copy(update={"objections": (*problems, *done.objections)}) if problems else done


def _tensor(model: Model, count: int) -> int:
    """As many ranks as there are GPUs, if heads divide; else the most that divide them."""
    heads = [kind.heads for kind in model.architecture.attention if isinstance(kind, MlaAttention | GqaAttention)]
    for ranks in range(max(1, count), 1, -1):
        if all(each % ranks == 0 for each in heads):
            return ranks
    return 1


def _shares(model: Model, goal: Goal, engine: str, tensor: int) -> Sequence[int]:
    """Ranks that may share one copy of the cache, fewest first: sharing costs speed."""
    if goal.decode_context_parallel is not None:
        return (goal.decode_context_parallel,)
    shape = cache_shape(model.architecture, "bf16")
    replicas = tensor if shape.heads_shared is None else max(1, tensor // shape.heads_shared)
    if engine != "vllm":
        return (1,)
    return [share for share in range(1, replicas + 1) if tensor % share == 0]


def _usual_dtype(model: Model, engine: str) -> str:
    sparse = any(isinstance(kind, MlaAttention) and kind.indexer_head_dim for kind in model.architecture.attention)
    # Guard: sparse MLA on SM120 needs the packed layout (https://github.com/vllm-project/vllm/pull/43477)
    return PACKED_SPARSE if sparse and engine == "vllm" else "bf16"


def _rank_problems(
    model: Model, goal: Goal, engine: str, count: int, tensor: int, pipeline: int, *, same: bool
) -> tuple[Objection, ...]:
    found = []
    if count == 0:
        found.append(Objection(code="no-gpu", message=f"{engine} needs a GPU for this model, and the box has none"))
    elif tensor * pipeline > count:
        message = f"{tensor} x {pipeline} ranks are asked for, the box has {count} GPUs"
        found.append(Objection(code="too-few-gpus", message=message, remedy=f"--tp {_tensor(model, count)}"))
    if not same:
        found.append(
            Objection(
                code="mixed-gpus", message="ranks need GPUs of one kind: the smallest decides, and kernels differ"
            )
        )
    for kind in model.architecture.attention:
        if isinstance(kind, MlaAttention | GqaAttention) and kind.heads % tensor:
            message = f"{kind.heads} attention heads cannot be divided over {tensor} ranks"
            found.append(
                Objection(code="heads-not-divisible", message=message, remedy=f"--tp {_tensor(model, tensor)}")
            )
    share = goal.decode_context_parallel
    if share is not None and tensor % share:
        message = f"{tensor} ranks cannot be divided into groups of {share} that share a cache"
        found.append(Objection(code="dcp-not-divisor", message=message, remedy=f"--dcp {tensor}"))
    if share is not None and share > 1 and engine == "sglang":
        message = "SGLang has no decode context parallelism: every rank keeps a whole copy of the cache"
        found.append(Objection(code="no-dcp", message=message, remedy="--engine vllm"))
    return tuple(found)


def _within_reach(plan: Plan) -> bool:
    """Whether the weights themselves fit: then settings are the question, not another artifact."""
    return plan.kv.capacity_tokens > 0 and not _hopeless(plan)


def _order(plan: Plan, artifacts: Sequence[Model], box: Box) -> tuple[object, ...]:
    """What fits, then the artifact's quality, then everything on GPUs, then the engine."""
    artifact = _artifact(plan, artifacts)
    bits = expert_bits(artifact)
    tier = 0 if artifact is artifacts[0] else 1 if bits >= NATIVE_BITS else 2
    in_memory = any(place.device == "host" for place in plan.expert_places)
    installed = any(found.engine == plan.engine for found in box.engines)
    latent = any(isinstance(kind, MlaAttention) for kind in artifact.architecture.attention)
    # ik_llama.cpp reads prompts and decodes faster with experts in main memory (20.9 against 15.4 tok/s, 2026-04).
    preferred = "ik_llama.cpp" if in_memory and latent else "llama.cpp"
    engine = {"vllm": 0, "sglang": 1, preferred: 2}.get(plan.engine, 3)
    return (not plan.fits, _hopeless(plan), tier, in_memory, not installed, artifact.tensor_bytes, engine)


def _hopeless(plan: Plan) -> bool:
    """Whether the engine cannot run the artifact on this box at all, however much memory there were."""
    return any(objection.code in ("wrong-format", "no-gpu", "ik-only-types") for objection in plan.objections)


def _artifact(plan: Plan, artifacts: Sequence[Model]) -> Model:
    return next(artifact for artifact in artifacts if artifact.name == plan.model)


def _installed(box: Box, engine: str) -> str | None:
    return next((found.version for found in box.engines if found.engine == engine), None)

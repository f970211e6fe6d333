"""The order of a model's plans for a goal, and why the second lost.

What fits comes first, then what would with less context, then the weights as their maker published them, then what can
be counted on: the lower end of the speed's band, for the load that the goal names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from upright.engines import engine_named
from upright.facts.catalog import versions
from upright.facts.records.box import Box
from upright.facts.records.model import MlaAttention, Model
from upright.facts.records.plan import Plan, Rate

# Below this many bits a routed weight, or with experts cut out, it is not quite the same model any more: Kimi K2.6 has
# perplexity 1.84 at 4.5 bits and 2.41 at 2.6 (unsloth.ai). Such an artifact is offered, never chosen.
FAITHFUL_BITS = 3.5
NATIVE_BITS = 4.4
# What loses a little must be this much faster, and so must each doubling of the DCP ranks.
LOSS_COSTS = 0.05
SHARING_COSTS = 0.02
ANSWER_TOKENS = 1_000
_WITH_NVFP4 = ">=10"
NOT_KNOWN = "engine-not-known"
NOT_UNDERSTOOD = "not-understood"
_BY_A_SETTING = ("pool-too-small", "constraint")
"""Objections that another context or split ends; for the others the box is too small."""
_HOPELESS = ("wrong-format", "no-ranks", "no-gpu", "ik-only-types", "too-few-gpus", NOT_KNOWN)


def expert_bits(model: Model) -> float:
    """Bits of a routed weight, scales included; of any weight if there are no experts."""
    lines = [line for line in model.weights if line.group == "routed_experts"] or list(model.weights)
    parameters = sum(line.parameters for line in lines)
    return 8 * sum(line.bytes for line in lines) / parameters if parameters else 0.0


def faithful(model: Model) -> bool:
    return expert_bits(model) >= FAITHFUL_BITS


def hopeless(plan: Plan) -> bool:
    """Whether no other setting or size would end what stands against it."""
    return any(objection.code in _HOPELESS for objection in plan.objections)


def ranking_key(plan: Plan, artifact: Model, native: Model | None, box: Box) -> tuple[object, ...]:
    installed = any(install.engine == plan.engine for install in box.engines)
    return (
        not plan.fits,
        hopeless(plan),
        any(objection.code not in _BY_A_SETTING for objection in plan.objections),
        artifact is not native,
        _emulated(artifact, box),
        not installed,
        *_split(plan, box),
        -ranking_speed(plan, artifact, native),
        artifact.tensor_bytes,
        _preference(plan, artifact),
        plan.parallel.decode_context,
    )


def _emulated(artifact: Model, box: Box) -> bool:
    """NVFP4 on GPUs before Blackwell or of AMD, which cannot multiply it: weights are unpacked for every step."""
    capability = next((gpu.compute_capability for gpu in box.gpus if gpu.compute_capability), None)
    stored = (artifact.quantisation or "").upper()
    return "NVFP4" in stored and capability is not None and not versions.in_range(capability, _WITH_NVFP4)


def _split(plan: Plan, box: Box) -> tuple[int, int]:
    """GPUs that stay idle, and how far the split is from plain tensor parallelism: no constant prices stages yet."""
    goal = plan.goal
    if plan.memory_fraction is None or goal.nodes > 1 or goal.tensor_parallel or goal.pipeline_parallel:
        return 0, 0
    idle = max(0, len(box.gpus) - plan.parallel.tensor * plan.parallel.pipeline)
    return idle, 2 if plan.parallel.pipeline > 1 else int(plan.parallel.expert)


def _preference(plan: Plan, artifact: Model) -> int:
    """Between ways of which nothing better is known."""
    hybrid = {place.device == "host" for place in plan.expert_places} == {True, False}
    latent = any(isinstance(kind, MlaAttention) for kind in artifact.architecture.attention)
    engine = engine_named(plan.engine)
    if hybrid and latent and engine.standing_hybrid is not None:
        return engine.standing_hybrid
    return engine.standing


def ranking_speed(plan: Plan, artifact: Model, native: Model | None) -> float:
    """Tokens a second that can be counted on, less what quality and sharing must earn; 0 if nothing is known."""
    if plan.speed is not None and plan.speed.basis == "assumed":
        return 0.0  # an assumption is shown, and decides nothing
    sure = goal_speed(plan)
    if artifact is not native and expert_bits(artifact) < NATIVE_BITS:
        sure *= 1 - LOSS_COSTS
    earned = (1 - SHARING_COSTS) ** math.log2(plan.parallel.decode_context)
    return round(sure * float(earned), 4)


def goal_speed(plan: Plan) -> float:
    """For agents and chats what one user sees, for batches what all get, for documents the whole job if known."""
    speed = plan.speed
    if speed is None:
        return 0.0
    if plan.goal.use == "batch":
        return speed.together.low
    if plan.goal.use == "long-documents":
        if speed.prompt is None:
            return 0.0
        seconds = plan.context_tokens / speed.prompt.low + ANSWER_TOKENS / speed.full.low
        return ANSWER_TOKENS / seconds
    return speed.decode.low


def runner_up_words(plans: Sequence[Plan]) -> str | None:
    """One line on the best of the others; None if there is no other."""
    best = plans[0]
    second = next((plan for plan in plans[1:] if _apart(plan) != _apart(best)), None)
    if second is None or not best.fits:
        return None
    name = configuration_words(second, best)
    if not second.fits:
        return f"{name} is next, and {second.objections[0].message}"
    if best.speed is None or second.speed is None:
        return f"{name} would fit too; how fast it is, is not known"
    ours, theirs = best.speed.decode, second.speed.decode
    if goal_speed(best) >= goal_speed(second):
        return f"{name} comes second: {_rate(theirs)} tok/s against {_rate(ours)}"
    why = "DCP is one more setting to prove"
    if best.model != second.model:
        why = (
            "it would lose a little of the model" if best.parallel == second.parallel else "it is not the same weights"
        )
    return f"{name} is no better: {_rate(theirs)} tok/s against {_rate(ours)}, and {why}"


def _apart(plan: Plan) -> tuple[str, str, int]:
    """What a page tells two plans apart by; other splits have a note of their own."""
    return plan.engine, plan.model, plan.parallel.decode_context


def configuration_words(plan: Plan, beside: Plan | None = None) -> str:
    """What sets this plan apart: `sglang`, `ik_llama.cpp with ...:Q4_X`, `vllm, DCP 8`."""
    label = plan.engine
    if beside is None or plan.model != beside.model:
        label += f" with {plan.model}"
    if plan.parallel.decode_context > 1:
        label += f", DCP {plan.parallel.decode_context}"
    elif beside is not None and beside.parallel.decode_context > 1:
        label += ", no DCP"
    return label


def _rate(rate: Rate) -> str:
    if rate.best is None:
        return f"{rate.low:g} to {rate.high:g}"
    return f"{rate.best:g} ({rate.low:g} to {rate.high:g})"

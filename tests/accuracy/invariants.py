"""What must hold of every plan, whatever model, box, engine and option: judged by figures that plans state themselves.

Each function yields one sentence for each violation. Nothing of the planner's own arithmetic is used: only records.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import upright
from upright.base.errors import UprightError
from upright.base.units import GIB
from upright.engines import ENGINES
from upright.facts import catalog
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.model import CompressedAttention, GqaAttention, MlaAttention, Model
from upright.facts.records.plan import Plan
from upright.planning.requests.library import artifact_choice_for, box_record

# Counts that no catalogued box has, and silicon that none of them is.
MADE_UP = (
    "6x-rtx-pro-6000-server", "3x-rtx-5090", "4x-rtx-3090", "4x-rtx-4090", "5x-h100-sxm", "8x-mi300x", "16x-h200-sxm",
)  # fmt: skip
OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"users": 4},
    {"users": 3, "context_tokens": 8_192},
    {"context_tokens": 131_072},
    {"kv_dtype": "fp8"},
    {"tensor_parallel": 2},
    {"pipeline_parallel": 2},
    {"pipeline_parallel": 3, "kv_dtype": "bf16"},
    {"decode_context_parallel": 2},
    {"decode_context_parallel": 4, "users": 2},
    {"decode_context_parallel": 8},
    {"memory_fraction": 0.8},
    {"draft": True},
)
_BYTES = {"pool-too-small", "does-not-fit", "weights-too-large", "host-memory-too-small", "nothing-left-outside"}
_CACHE = ("kv_cache", "state")
_OUTSIDE = ("graphs_outside",)


@dataclass(frozen=True)
class Asked:
    """What a person types."""

    model: str
    box: str
    engine: str | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        wishes = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.model} on {self.box} with {self.engine or 'any engine'} {wishes}".strip()

    def plans(self, box: Box | None = None, **changes: Any) -> Sequence[Plan]:
        try:
            return upright.plan(self.model, box or self.box, engine=self.engine, **{**self.options, **changes})
        except UprightError:
            return ()


# Seen wrong by people.
NAMED = (
    Asked("glm-4.7", "hgx-h200", "sglang", {"decode_context_parallel": 4}),
    Asked("deepseek-v4-flash", "hgx-h200", "vllm", {"decode_context_parallel": 2}),
    Asked("minimax-m2.7", "6x-rtx-pro-6000-server", None),
    Asked("glm-4.7", "6x-rtx-pro-6000-server", None),
    Asked("deepseek-v4-flash", "hgx-h200", None),
    Asked("deepseek-r1", "2x-rtx-pro-6000-server", "ktransformers", {"pipeline_parallel": 2}),
    Asked("llama-4-scout", "2x-rtx-5090", "ik_llama.cpp", {"context_tokens": 131_072}),
    Asked("nemotron-h-56b", "hgx-h200", "sglang"),
)


def crossing() -> list[Asked]:
    models, boxes = list(catalog.rows("models")), [*catalog.rows("boxes"), *MADE_UP]
    return [Asked(*one) for one in itertools.product(models, boxes, (None, *ENGINES), OPTIONS)]


def sample(count: int, seed: int) -> list[Asked]:
    return [*NAMED, *random.Random(seed).sample(crossing(), count)]


@cache
def artifacts(name: str) -> dict[str, Model]:
    choice = artifact_choice_for(name)
    return {model.name: model for model in (choice.model, *choice.choose_from, *choice.others)}


def pool_left(plan: Plan, device: str) -> int:
    """What a GPU has for the cache, by the plan's own ledger."""
    offered = next(budget.capacity_bytes for budget in plan.budgets if budget.device == device)
    fixed = (line for line in plan.ledger if line.device == device and line.term not in (*_CACHE, *_OUTSIDE))
    return offered - sum(line.bytes for line in fixed)


def copies(plan: Plan, model: Model) -> Fraction:
    """How often the ranks must hold a token: a latent on every rank, heads once, less by DCP, and once at least."""
    kinds = model.architecture.attention
    heads = [kind.kv_heads for kind in kinds if isinstance(kind, GqaAttention)]
    if any(isinstance(kind, MlaAttention | CompressedAttention) for kind in kinds) or not heads:
        heads = [1]
    return max(Fraction(1), Fraction(plan.parallel.tensor, min(heads) * plan.parallel.decode_context))


def cache_within_memory(asked: Asked, plans: Sequence[Plan]) -> Iterator[str]:
    """The cache bytes of all ranks fit into the memory that is left."""
    for plan in plans:
        gpus = [budget.device for budget in plan.budgets if budget.device != "host" and budget.capacity_bytes]
        grows = plan.kv.bytes_per_token
        there = plan.parallel.tensor * plan.parallel.pipeline <= len(gpus)  # else nothing is shown of it
        if plan.kv.capacity_tokens and there and plan.memory_fraction is not None and grows:
            left = sum(pool_left(plan, device) for device in gpus)
            needed = plan.kv.capacity_tokens * Fraction(grows) * copies(plan, artifacts(asked.model)[plan.model])
            if needed > left:
                yield f"{asked}: {words(plan)}: {float(needed) / GIB:,.0f} GiB of cache, {left / GIB:,.0f} GiB are left"
            for device in gpus:
                here = sum(line.bytes for line in plan.ledger if line.device == device and line.term in _CACHE)
                used = Fraction(here, plan.goal.users) * plan.users_at_context
                room = pool_left(plan, device)
                if plan.fits and used > room:
                    yield f"{asked}: {words(plan)}: {device} holds {float(used) / GIB:.1f} of {room / GIB:.1f} GiB"
        for budget in plan.budgets if plan.fits else ():
            if plan.used_bytes(budget.device) - outside(plan, budget.device) > budget.capacity_bytes:
                yield f"{asked}: {words(plan)}: {budget.device} has more than it offers"


def outside(plan: Plan, device: str) -> int:
    return sum(line.bytes for line in plan.ledger if line.device == device and line.term in _OUTSIDE)


def sharing_at_most_divides(asked: Asked, plans: Sequence[Plan]) -> Iterator[str]:
    """DCP n gives at most n times the tokens of DCP 1."""
    ranks = asked.options.get("decode_context_parallel", 1)
    if ranks == 1 or not plans:
        return
    alone = {alike(plan): plan for plan in asked.plans(decode_context_parallel=1)}
    for plan in plans:
        one, share = alone.get(alike(plan)), plan.parallel.decode_context
        if one is not None and plan.kv.capacity_tokens > share * one.kv.capacity_tokens:
            yield f"{asked}: {words(plan)}: {plan.kv.capacity_tokens:,} tokens, DCP 1 has {one.kv.capacity_tokens:,}"


def ranks_divide_heads(asked: Asked, plans: Sequence[Plan]) -> Iterator[str]:
    """Ranks divide the heads, and the KV heads or the other way round: engines assert both."""
    for plan in plans:
        tensor = plan.parallel.tensor
        if not plan.fits or plan.memory_fraction is None:
            continue
        for kind in artifacts(asked.model)[plan.model].architecture.attention:
            heads = getattr(kind, "heads", None)
            if heads and heads % tensor:
                yield f"{asked}: {words(plan)}: {heads} heads of {kind.kind}"
            if isinstance(kind, GqaAttention) and kind.kv_heads % tensor and tensor % kind.kv_heads:
                yield f"{asked}: {words(plan)}: {kind.kv_heads} KV heads"


def longest_is_one(asked: Asked, plans: Sequence[Plan]) -> Iterator[str]:
    """One user's longest context fits when it is asked for, and is the same on every page."""
    if not plans:
        return
    best = plans[0]
    longest = best.largest_context_tokens
    if best.fits and longest:
        if longest < best.context_tokens or best.users_at_context < best.goal.users:
            yield f"{asked}: {words(best)}: promises less than it was asked for: {longest:,}"
        again = [
            plan
            for plan in upright.plan(artifacts(asked.model)[best.model], asked.box, best.goal, **pinned(best, longest))
            if alike(plan) == alike(best)
        ]
        if not again or {objection.code for objection in again[0].objections} & _BYTES:
            yield f"{asked}: {words(best)}: {longest:,} tokens are promised to one user, and are refused when asked for"
        elif again[0].largest_context_tokens != longest:
            told = again[0].largest_context_tokens
            yield f"{asked}: {words(best)}: one user up to {longest:,}; asked for that, up to {told:,}"
        for rung in best.rungs:
            alone = rung.name == "context" and best.goal.users == 1 and ", with " not in rung.why
            if alone and rung.fits != (rung.context_tokens <= longest):
                says = "fits" if rung.fits else "does not fit"
                yield f"{asked}: {words(best)}: one user up to {longest:,}, and {rung.context_tokens:,} {says}"
    told_contexts = {
        option
        for near in best.nearest
        if near.artifact is None
        for name, option in itertools.pairwise(near.options)
        if name == "--context"
    } | {
        objection.remedy.removeprefix("--context ")
        for objection in best.objections
        if objection.remedy and objection.remedy.startswith("--context ")
    }
    if len(told_contexts) > 1:
        yield f"{asked}: {words(best)}: two contexts to try: {', '.join(sorted(told_contexts))}"


def pinned(plan: Plan, context: int) -> dict[str, Any]:
    """The same configuration for one user of this context."""
    ranks = plan.memory_fraction is not None and not plan.goal.nodes > 1 and plan.engine in ("vllm", "sglang")
    chosen_ranks = {
        "tensor_parallel": plan.parallel.tensor,
        "pipeline_parallel": plan.parallel.pipeline,
        "decode_context_parallel": plan.parallel.decode_context,
        "memory_fraction": plan.memory_fraction,
        "expert_parallel": plan.parallel.expert or None,
    }
    return {
        "users": 1,
        "context_tokens": context,
        "engine": plan.engine,
        "kv_dtype": plan.kv.dtype,
        **(chosen_ranks if ranks else {}),
    }


def more_memory_more_tokens(asked: Asked, plans: Sequence[Plan]) -> Iterator[str]:
    """More memory never gives fewer tokens: of a larger GPU, of more system RAM, of a larger share."""
    if not plans:
        return
    box = box_record(asked.box)
    first = plans[0]
    ways: list[tuple[str, Sequence[Plan]]] = [
        ("16 GiB more RAM", asked.plans(grown(box, ram=16))),
        *((f"{more} GiB more on each GPU", asked.plans(grown(box, gpu=more))) for more in (1, 3) if box.gpus),
    ]
    if first.memory_fraction is not None and first.memory_fraction <= 0.97:
        share = round(first.memory_fraction + 0.02, 3)
        larger_share = [plan for plan in asked.plans(memory_fraction=share) if plan.engine == first.engine]
        ways.append((f"a share of {share}", larger_share))
    before = tokens_by_way(plans)
    for name, larger in ways:
        after = tokens_by_way(larger)
        for way in before.keys() & after.keys():
            for what, few, many in zip(("expected", "sure", "longest"), after[way], before[way], strict=True):
                if few < many:
                    yield f"{asked}: {way}: {name}: {many:,} tokens {what} become {few:,}"


def tokens_by_way(plans: Sequence[Plan]) -> dict[tuple[Any, ...], tuple[int, int, int]]:
    """The most that a configuration was planned with."""
    found: dict[tuple[Any, ...], tuple[int, int, int]] = {}
    for plan in plans:
        told = (plan.kv.capacity_tokens, plan.kv.low_tokens, plan.largest_context_tokens)
        found[(*alike(plan), plan.parallel.decode_context)] = told
    return found


def grown(box: Box, *, gpu: int = 0, ram: int = 0) -> Box:
    def more(figure: Figure, gib: int) -> Figure:
        return figure if figure.value is None else figure.model_copy(update={"value": int(figure.value) + gib * GIB})

    gpus = tuple(
        each.model_copy(
            update={
                "memory_bytes": more(each.memory_bytes, gpu),
                "memory_free_bytes": more(each.memory_free_bytes, gpu),
            }
        )
        for each in box.gpus
    )
    return box.model_copy(
        update={
            "gpus": gpus,
            "memory_bytes": more(box.memory_bytes, ram),
            "memory_available_bytes": more(box.memory_available_bytes, ram),
        }
    )


def alike(plan: Plan) -> tuple[Any, ...]:
    """Everything but the sharing of the cache."""
    ranks = plan.parallel
    return plan.engine, plan.model, plan.kv.dtype, ranks.tensor, ranks.pipeline, ranks.expert


def words(plan: Plan) -> str:
    ranks = plan.parallel
    return f"{plan.engine} TP{ranks.tensor} PP{ranks.pipeline} DCP{ranks.decode_context} {plan.kv.dtype} {plan.model}"


Invariant = Callable[[Asked, Sequence[Plan]], Iterator[str]]
INVARIANTS: dict[str, Invariant] = {
    "cache within memory": cache_within_memory,
    "DCP at most divides": sharing_at_most_divides,
    "ranks divide heads": ranks_divide_heads,
    "one longest context": longest_is_one,
    "more memory, more tokens": more_memory_more_tokens,
}


def violations(asked: Asked) -> dict[str, list[str]]:
    plans = asked.plans()
    return {name: list(invariant(asked, plans)) for name, invariant in INVARIANTS.items()}

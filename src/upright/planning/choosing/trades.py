"""What other ways buy: at most three lines beside the best plan, each with what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from upright.base.units import format_size, format_tokens
from upright.engines import engine_named
from upright.facts.catalog.fidelity import LEVELS
from upright.facts.records.plan import Note, Plan
from upright.planning.choosing.rule import Way

OTHER_WAY = "other-way"
MOST = 3
_MORE = 1.15
"""Less than this is no other way that a person would take."""


def other_ways(best: Way, others: Sequence[Way]) -> tuple[Note, ...]:
    """The first that is faster, longer, closer to native, cheaper, each at most once."""
    fitting = [way for way in others if way.plan.fits]
    found: dict[int, list[str]] = {}
    for buys, worth in _GAINS.items():
        ranked = sorted((way for way in fitting if worth(way, best) >= _MORE), key=lambda way: -worth(way, best))
        if ranked:
            found.setdefault(id(ranked[0]), []).append(_for_users(buys, best.plan.goal.users))
    ways = {id(way): way for way in fitting}
    return tuple(_note(ways[key], best, buys) for key, buys in list(found.items())[:MOST])


def _note(way: Way, best: Way, buys: Sequence[str]) -> Note:
    return Note(
        code=OTHER_WAY,
        message=f"{' and '.join(buys)}: {configuration_words(way.plan, best.plan)}, {', '.join(_figures(way, best))}",
        remedy=" ".join(("--engine", way.plan.engine, *_options(way.plan, best.plan))),
    )


def _options(plan: Plan, best: Plan) -> Iterator[str]:
    if plan.goal.image and plan.goal.image != best.goal.image:
        yield from ("--image", plan.goal.image)
    if plan.kv.dtype != best.kv.dtype and not plan.goal.image:
        yield from ("--kv-dtype", plan.kv.dtype)
    if plan.memory_fraction is None:
        return  # whole layers on devices: there are no ranks to count
    for option, ours, theirs in (
        ("--tp", plan.parallel.tensor, best.parallel.tensor),
        ("--dp", plan.parallel.data, best.parallel.data),
        ("--dcp", plan.parallel.decode_context, best.parallel.decode_context),
    ):
        if ours != theirs:
            yield from (option, str(ours))


def _figures(way: Way, best: Way) -> Iterator[str]:
    speed = way.plan.speed
    yield f"{speed.decode.best or speed.decode.low:.0f} tok/s" if speed else "speed not known"
    if way.plan.goal.users > 1:
        yield f"{way.plan.users_at_context} users x {format_tokens(way.plan.context_tokens)} tokens"
    else:
        yield f"one user up to {format_tokens(way.plan.largest_context_tokens)}"
    if way.artifact.name != best.artifact.name:
        yield f"{format_size(way.artifact.tensor_bytes)}, weights {_LOST[way.fidelity.level]}"
    if way.idle_gpus > best.idle_gpus:
        yield f"{way.idle_gpus} GPUs stay free"


def _faster(way: Way, best: Way) -> float:
    return way.expected / best.expected if best.expected and not way.staged else 0.0


def _for_users(buys: str, users: int) -> str:
    return "more users" if buys == "longer" and users > 1 else buys


def _longer(way: Way, best: Way) -> float:
    """More tokens of context, for weights of which as little is lost or at a speed that is known too."""
    if way.lost > best.lost and way.speed is None:
        return 0.0
    ours, theirs = best.plan.kv.low_tokens, way.plan.kv.low_tokens
    wanted = best.plan.goal.users > 1 or best.plan.largest_context_tokens < way.plan.largest_context_tokens
    return theirs / ours if ours and wanted else 0.0


def _closer(way: Way, best: Way) -> float:
    return 1.0 + LEVELS.index(best.fidelity.level) - LEVELS.index(way.fidelity.level)


def _cheaper(way: Way, best: Way) -> float:
    """By what is downloaded and held; a way in system RAM is no cheaper for who has the GPUs."""
    return 0.8 * best.artifact.tensor_bytes / way.artifact.tensor_bytes if not way.unread else 0.0


_GAINS: dict[str, Callable[[Way, Way], float]] = {
    "faster": _faster,
    "longer": _longer,
    "closer to native": _closer,
    "smaller": _cheaper,
}
_LOST = {"native": "native", "equal": "equal to native", "near": "near to native", "lossy": "that lost much"}


def configuration_words(plan: Plan, beside: Plan | None = None) -> str:
    """What sets this plan apart: `sglang`, `ik_llama.cpp with ...:Q4_X`, `vllm, TP 4, DCP 8, fp8 KV`."""
    label = engine_named(plan.engine).title if beside is not None else plan.engine
    if beside is None or plan.model != beside.model:
        label += f" with {plan.model}"
    if plan.goal.image:
        label += f" by the image {plan.goal.image}"
    if beside is not None and plan.memory_fraction is not None and plan.parallel.tensor != beside.parallel.tensor:
        label += f", TP {plan.parallel.tensor}"
    if plan.parallel.data > 1:
        label += f", DP {plan.parallel.data}"
    if plan.parallel.decode_context > 1:
        label += f", DCP {plan.parallel.decode_context}"
    elif beside is not None and beside.parallel.decode_context > 1 and plan.memory_fraction is not None:
        label += ", no DCP"
    if beside is not None and plan.kv.dtype != beside.kv.dtype:
        label += f", {plan.kv.dtype} KV"
    return label

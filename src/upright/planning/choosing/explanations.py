"""Sentences that explain a choice of plans."""

from __future__ import annotations

from collections.abc import Sequence

from upright.base.units import format_size
from upright.facts import catalog
from upright.facts.catalog.fidelity import expert_bits, fidelity_of
from upright.facts.records.model import Model
from upright.facts.records.plan import ExpertPlace, Plan
from upright.planning.choosing.artifacts import ArtifactChoice
from upright.planning.choosing.engine_constraints import FORBIDDEN
from upright.planning.placement.engine_support import NO_CACHE_TYPE

_NOT_NATIVE = {
    "wrong-format": "are for other engines",
    "no-kernels": "are for engines without kernels here",
    "no-gpu": "are for engines that need a GPU",
    NO_CACHE_TYPE: "are for engines without such a cache type",
    "too-slow": "are too slow",
    FORBIDDEN: "cannot be run like this",
}


_KEPT = {
    "native": "native",
    "equal": "equal to the native ones",
    "near": "a little is lost",
    "lossy": "much is lost",
}


def choice_words(plans: Sequence[Plan], choice: ArtifactChoice) -> str | None:
    """Why this artifact and not another; None if there was nothing to choose."""
    best, native = plans[0], choice.model
    if not best.fits or choice.choose_from == ():
        return None
    if best.model == native.name:
        return _native_words(native)
    chosen = next(artifact for artifact in choice.choose_from if artifact.name == best.model)
    bits = expert_bits(chosen)
    weight = "an expert weight" if chosen.architecture.experts else "a weight"
    known = fidelity_of(chosen)
    kept = f"{_KEPT[known.level]}: {known.source}"
    return (
        f"{chosen.name} ({format_size(chosen.tensor_bytes)}, {bits:.1f} bits {weight}, {kept}): "
        f"the native weights ({format_size(native.tensor_bytes)}) {_why_not_native(plans, native)}."
    )


def _why_not_native(plans: Sequence[Plan], native: Model) -> str:
    """What is not short of memory is not said to be too large."""
    objections = [objection for plan in plans if plan.model == native.name for objection in plan.objections]
    short = {objection.code for objection in objections if objection.short_bytes}
    if short == {"pool-too-small"}:
        return "leave too little room for such a KV cache"
    if not objections:
        return "are slower, or of unknown speed"
    if short:
        return "do not fit"
    return _NOT_NATIVE.get(objections[0].code, "do not fit")


def _native_words(model: Model) -> str:
    """The first artifact whose size is known need not be the maker's own."""
    row = catalog.find_model(model.source)
    if row is None or model.source.partition("/")[0] == row.repository.partition("/")[0]:
        return f"{model.name} as its maker published it ({format_size(model.tensor_bytes)}): nothing is lost."
    stored = f"{format_size(model.tensor_bytes)}, {expert_bits(model):.1f} bits an expert weight"
    return (
        f"{model.source} ({stored}) is not the maker's own: {row.repository} was not considered, its size is not known."
    )


def expert_words(places: Sequence[ExpertPlace]) -> str | None:
    """`experts: layers 1-8 on gpu0, 53-60 on gpu1, 9-52 in system RAM`."""
    if not places:
        return None
    placements = [
        f"{spans(place.layers)} {'in system RAM' if place.device == 'host' else 'on ' + place.device}"
        for place in places
    ]
    return f"experts of layers {', '.join(placements)}"


def spans(numbers: Sequence[int]) -> str:
    """`1-8, 10`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)

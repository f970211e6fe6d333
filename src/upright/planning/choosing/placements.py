"""A hybrid plan with fewer layers of experts on the GPUs, each placement planned: what a layer there buys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from upright.facts.catalog.fidelity import fidelity_of
from upright.facts.catalog.loader import catalogue_snapshot
from upright.facts.records.box import Box
from upright.facts.records.kernel import KernelVerdict
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan, Rate, Use
from upright.facts.records.residuals import Residuals
from upright.planning.choosing.rule import Way, in_system_ram, ordered
from upright.planning.choosing.table import Table
from upright.planning.placement.asked_layers import FILLED, NONE
from upright.planning.placement.devices import HOST
from upright.planning.speed.expected import with_assumed_bandwidth
from upright.planning.speed.predict import Unknown, speed

UBATCHES = (512, 2048, 4096)
_SHARES = (3, 2, 1, 0)
"""Thirds of the layers that there is room for."""
GOES_BY: dict[Use, str] = {
    "coding-agent": "fastest decode",
    "chat": "fastest decode",
    "batch": "most together",
    "long-documents": "soonest done",
}


class Placement(NamedTuple):
    """One placement, planned."""

    place: str
    """As `--place` takes it."""
    plan: Plan
    prefill: dict[int, Rate | None]
    """By the ubatches that it has room for; None where that is not known."""
    best: bool
    """Whether the use would choose it."""

    @property
    def context_tokens(self) -> int:
        """The longest context beside these experts."""
        return min(self.plan.largest_context_tokens, self.plan.kv.low_tokens)

    def to_dict(self) -> dict[str, Any]:
        speed = self.plan.speed
        return {
            "place": self.place,
            "layers_on_gpus": sum(map(int, self.place.split("+"))) if self.place != NONE else 0,
            "fits": self.plan.fits,
            "ubatch_tokens": self.plan.ubatch_tokens,
            "decode": speed.decode.model_dump() if speed else None,
            "prefill": {str(ubatch): rate and rate.model_dump() for ubatch, rate in self.prefill.items()},
            "context_tokens": self.context_tokens,
            "for_use": self.best,
        }


@catalogue_snapshot()
def placements(
    plan: Plan, model: Model, box: Box, verdicts: Sequence[KernelVerdict] = (), measured: Sequence[Residuals] = ()
) -> tuple[Placement, ...]:
    """None on the GPUs, as many layers as there is room for, and between; empty where nothing is in system RAM."""
    all_gpus = len(plan.gpus) in (0, len(box.gpus))
    if not (plan.fits and plan.memory_fraction is None and in_system_ram(plan) and box.gpus and all_gpus):
        return ()
    table = Table(box, verdicts, measured)
    settled = {"engine": plan.engine, "kv_dtype": plan.kv.dtype, "context_tokens": plan.context_tokens}

    def planned(place: str) -> Plan:
        return table.best(model, plan.goal.model_copy(update={**settled, "place": place}))

    filled = plan if plan.goal.place in (None, FILLED) else planned(FILLED)
    found = {words_of(filled, box): filled, words_of(plan, box): plan}
    for counts in _between(_counts(filled, box)):
        place = _words(counts)
        if place not in found and len(found) < len(_SHARES):
            found[place] = planned(place)
    if len(found) < 2:
        return ()
    fitting = {place: way for place, way in found.items() if way.fits and way.speed}
    fidelity = fidelity_of(model)
    best = ordered(Way(way, model, box, fidelity) for way in fitting.values())[0].plan if fitting else None
    return tuple(
        Placement(place, way, _by_ubatch(way, model, box), way is best)
        for place, way in sorted(found.items(), key=lambda pair: -sum(_counts(pair[1], box)))
    )


def words_of(plan: Plan, box: Box) -> str:
    return _words(_counts(plan, box))


def _words(counts: Sequence[int]) -> str:
    return "+".join(map(str, counts)) if any(counts) else NONE


def _counts(plan: Plan, box: Box) -> tuple[int, ...]:
    there = {place.device: len(place.layers) for place in plan.expert_places if place.device != HOST}
    return tuple(there.get(f"gpu{number}", 0) for number in range(len(box.gpus)))


def _between(most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The ends first."""
    for share in sorted(_SHARES, key=lambda third: third * (max(_SHARES) - third)):
        yield tuple(round(count * share / max(_SHARES)) for count in most)


def _by_ubatch(plan: Plan, model: Model, box: Box) -> dict[int, Rate | None]:
    """A shorter one than it has fits too, and moves no expert."""
    longest, asked, seen = plan.ubatch_tokens or 0, plan.goal.batched_tokens, plan.box_in_use(box)

    def prefill(ubatch: int) -> Rate | None:
        if ubatch == longest:
            return plan.speed.prompt if plan.speed else None
        shorter = speed(plan.model_copy(update={"ubatch_tokens": ubatch}), model, with_assumed_bandwidth(seen))
        return None if isinstance(shorter, Unknown) else shorter.prompt

    return {ubatch: prefill(ubatch) for ubatch in ((asked,) if asked else UBATCHES) if ubatch <= longest}

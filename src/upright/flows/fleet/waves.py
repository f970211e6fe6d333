"""Waves of a rolling update: how many boxes are out at once; a bad wave is the last."""

from __future__ import annotations

import re
from dataclasses import dataclass

from upright.base.errors import UsageError
from upright.base.units import format_duration
from upright.flows.fleet.roll_plan import FleetStep, Place

SERIAL_UP_TO = 8
"""Boxes of a fleet that is rolled one after the other unless somebody says otherwise."""
_WIDE = "10%"


@dataclass(frozen=True)
class RollWidth:
    """How much of a fleet a roll changes at once. None: chosen by how many boxes there are."""

    canary: int | None = None
    """Boxes of the first wave."""
    max_unavailable: str | None = None
    """Boxes of every other wave: a number, or a share of all of them."""

    def at_once(self, boxes: int) -> int:
        """At least one, and never all of them."""
        text = self.max_unavailable or ("1" if boxes <= SERIAL_UP_TO else _WIDE)
        number = re.fullmatch(r"(\d{1,6})(%?)", text.strip())
        if number is None or int(number[1]) == 0 or (number[2] and int(number[1]) > 100):
            raise UsageError(f"--max-unavailable {text!r} is no number of boxes", hint="2, or 10%")
        wanted = int(number[1]) * boxes // 100 if number[2] else int(number[1])
        return max(1, min(wanted, boxes - 1))

    def first(self, boxes: int) -> int:
        """One box is proved before several are touched."""
        return min(self.canary or 1, self.at_once(boxes))


def waves(steps: tuple[FleetStep, ...], width: RollWidth, *, boxes: int) -> tuple[tuple[FleetStep, ...], ...]:
    """In the same order. The first that starts an engine is the canary's; the router is alone in its wave, and so is
    whoever waits for a port of the one before."""
    made: list[list[FleetStep]] = []
    limit, proved, held = 0, False, frozenset[Place]()
    for step in steps:
        same = bool(made) and _together(made[-1][-1], step) and len(made[-1]) < limit and not step.takes & held
        if same:
            made[-1].append(step)
        else:
            made.append([step])
            held = frozenset()
            limit = width.at_once(boxes) if proved or step.kind == "remove" else width.first(boxes)
            proved = proved or step.kind not in ("remove", "router")
        held |= step.holds
    return tuple(tuple(wave) for wave in made)


def remaining(seconds: float, planned: tuple[tuple[FleetStep, ...], ...], done: int) -> str:
    """How long the rest takes if each wave takes as long as those before; nothing before the first."""
    if not done:
        return ""
    return f"; about {format_duration(seconds / done * (len(planned) - done))} left"


def _together(one: FleetStep, other: FleetStep) -> bool:
    return not one.is_router and not other.is_router and (one.kind == "remove") == (other.kind == "remove")

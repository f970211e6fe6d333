"""What is simulated: boxes that serve alike, and who asks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from upright.planning.choosing.routing import RouterPolicy
from upright.planning.sizing.service import Service
from upright.planning.sizing.usage import Usage

Routing = Literal["affinity", "round-robin", "random"]


@dataclass(frozen=True)
class SimulationSetting:
    """What is simulated."""

    service: Service
    usage: Usage
    boxes: int
    users: int
    """People who alternate between asking and thinking; 0 where conversations arrive from outside."""
    seconds: float
    """Simulated time that counts."""
    warm_up_seconds: float = 0.0
    """Simulated before that, and forgotten."""
    settle_seconds: float = 0.0
    """After the warm-up, windows of this length are forgotten too until answers take no longer than before; 0: none."""
    arrivals_per_second: float | None = None
    """Conversations that begin at random times (Poisson) and end after their turns; None: only the users."""
    trace: tuple[tuple[float, int], ...] = ()
    """Conversations that begin when and at which box, in order; () if nobody wrote that down."""
    routing: Routing = "affinity"
    """affinity: turns of a conversation go to the box that has its prefix, a new one to the less loaded of two."""
    router: RouterPolicy | None = None
    """The router of the fleet, in place of `routing`; None: turns never leave their box while it is up."""
    hours_between_failures: float | None = None
    """Mean time until a box fails by chance; None: never."""
    fails_at_seconds: float | None = None
    """When the box with most to lose fails, from the time on that counts; None: only by chance."""
    repair_seconds: float = 900.0
    """Until a failed box serves again, loading included."""
    seed: int = 0

"""A running engine -> does it still answer?

/health says 200 for engines that answer nothing. Tokens that are counted on prove an engine that is at work, so a busy
one is not disturbed; an idle one is asked a question of a few tokens.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from upright.endpoint.client import Endpoint
from upright.errors import EndpointError, UnansweredError
from upright.records.deployment import Keeping, State
from upright.records.recipe import Recipe

_AGAIN_SECONDS = 5.0
"""How soon an engine that did not answer well is asked again."""
_METRICS_SECONDS = 5.0
_WORK = re.compile(r"^[^#\n]*(?:token|decode|throughput)[^\n]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class HealthLook:
    """What a look found."""

    state: State
    reason: str | None = None


def question(endpoint: Endpoint) -> None:
    """EndpointError if it is not answered."""
    endpoint.chat([{"role": "user", "content": "Say OK."}], max_tokens=4, temperature=0)


class HealthWatch:
    """Looks at a ready engine now and then, each time by a connection of its own: an open one would hold a thread."""

    def __init__(self, connect: Callable[[float], Endpoint], recipe: Recipe, keeping: Keeping) -> None:
        self.connect = connect
        self.recipe = recipe
        self.keeping = keeping
        self._counted: list[str] | None = None
        self._next = time.monotonic() + keeping.question_seconds

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def look(self) -> HealthLook:
        with self.connect(self.keeping.hung_seconds) as endpoint:
            seen = self._seen(endpoint)
        well = seen.state == "ready"
        self._next = time.monotonic() + (self.keeping.question_seconds if well else _AGAIN_SECONDS)
        return seen

    def _seen(self, endpoint: Endpoint) -> HealthLook:
        before, self._counted = self._counted, self._count()
        if before is not None and self._counted is not None and before != self._counted:
            return HealthLook("ready")
        try:
            question(endpoint)
        except UnansweredError:
            return HealthLook(
                "hung", f"a question was not answered for {self.keeping.hung_seconds:g} s, and no token counted"
            )
        except EndpointError as error:
            says = "200" if endpoint.healthy(self.recipe.health_path) else "nothing"
            return HealthLook(
                "degraded", f"{self.recipe.health_path} says {says}, but a question failed: {error.message}"
            )
        self._counted = self._count()
        return HealthLook("ready")

    def _count(self) -> list[str] | None:
        """The lines that count tokens; None where the engine does not tell."""
        if self.recipe.metrics_path is None:
            return None
        try:
            with self.connect(_METRICS_SECONDS) as endpoint:
                return _WORK.findall(endpoint.text(self.recipe.metrics_path))
        except EndpointError:
            return None


class Silence:
    """Whether a log has stopped growing."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._size = -1
        self._since = time.monotonic()

    def lasts(self, size: int) -> bool:
        now = time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        return now - self._since > self.limit_seconds

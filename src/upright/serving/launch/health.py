"""Checks whether a running engine still answers.

/health says 200 for engines that answer nothing. Tokens that are counted on prove an engine that is at work, so a busy
one is not disturbed; an idle one is asked a question of a few tokens.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.files import open_file
from upright.base.errors import EndpointError, UnansweredError
from upright.engines import ENGINES
from upright.facts.records.deployment import Keeping, State
from upright.facts.records.recipe import Recipe
from upright.serving.diagnose.lines import message_of
from upright.serving.endpoint.client import Endpoint

_AGAIN_SECONDS = 5.0
"""How soon an engine that did not answer well is asked again."""
_METRICS_SECONDS = 5.0
_PULSE_BYTES = 16_384
"""Of a log's end: what is compared before and after a question."""
_WORK = re.compile(r"^[^#\n]*(?:token|decode|throughput)[^\n]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class HealthResult:
    """What a look found."""

    state: State
    reason: str | None = None
    fallen: bool = False
    """What served has ended inside a process that goes on: it will not come back by itself."""


def healthy_while_loading(recipe: Recipe) -> bool:
    """A router is kept too, and is no engine."""
    engine = ENGINES.get(recipe.engine)
    return engine is not None and engine.http.healthy_while_loading


def fall_told_by_health(recipe: Recipe, status: int | None) -> str | None:
    """Why an engine whose health page says so will never answer; None if the page does not tell."""
    if status in (None, 200) or not healthy_while_loading(recipe):
        return None
    return f"{recipe.health_path} says {status}: what serves has ended, and its process goes on"


def ask_test_question(endpoint: Endpoint) -> None:
    """EndpointError if it is not answered."""
    endpoint.chat([{"role": "user", "content": "Say OK."}], max_tokens=4, temperature=0)


class HealthWatch:
    """Looks at a ready engine now and then, each time by a connection of its own: an open one would hold a thread."""

    def __init__(self, connect: Callable[[float], Endpoint], recipe: Recipe, keeping: Keeping, log: Path) -> None:
        self.connect = connect
        self.recipe = recipe
        self.keeping = keeping
        self.pause_seconds = min(keeping.question_seconds, keeping.hung_seconds)
        self._pulse = LogPulse(log)
        self._counted: list[str] | None = None
        self._next = time.monotonic() + self.pause_seconds

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def look(self) -> HealthResult:
        with self.connect(self.keeping.hung_seconds) as endpoint:
            seen = self._seen(endpoint)
        well = seen.state == "ready"
        self._next = time.monotonic() + (self.pause_seconds if well else _AGAIN_SECONDS)
        return seen

    def _seen(self, endpoint: Endpoint) -> HealthResult:
        before, self._counted = self._counted, self._count()
        if before is not None and self._counted is not None and before != self._counted:
            return HealthResult("ready")
        self._pulse.beats()
        try:
            ask_test_question(endpoint)
        except UnansweredError:
            if self._pulse.beats():  # a long prompt is read, and the log says how far
                return HealthResult("ready")
            return HealthResult(
                "hung", f"a question was not answered for {self.keeping.hung_seconds:g} s, and no token counted"
            )
        except EndpointError as error:
            status = endpoint.health_status(self.recipe.health_path)
            if (fall := fall_told_by_health(self.recipe, status)) is not None:
                return HealthResult("degraded", fall, fallen=True)
            says = "200" if status == 200 else "nothing"
            return HealthResult(
                "degraded", f"{self.recipe.health_path} says {says}, but a question failed: {error.message}"
            )
        self._counted = self._count()
        return HealthResult("ready")

    def _count(self) -> list[str] | None:
        """The lines that count tokens; None where the engine does not tell."""
        if self.recipe.metrics_path is None:
            return None
        try:
            with self.connect(_METRICS_SECONDS) as endpoint:
                return _WORK.findall(endpoint.text(self.recipe.metrics_path))
        except EndpointError:
            return None


class LogPulse:
    """Whether a log says something new. A status line that is said again, and differs in its time only, is no life."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._known: frozenset[str] = frozenset()

    def beats(self) -> bool:
        """Since it was asked last."""
        known, self._known = self._known, self._sentences()
        return bool(self._known - known)

    def _sentences(self) -> frozenset[str]:
        try:
            with open_file(self.log) as stream:
                stream.seek(max(0, self.log.stat().st_size - _PULSE_BYTES))
                tail = stream.read(_PULSE_BYTES).decode("utf-8", "replace")
        except OSError:
            return frozenset()
        return frozenset(message_of(line) for line in tail.splitlines()[1:])


class LogSilence:
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

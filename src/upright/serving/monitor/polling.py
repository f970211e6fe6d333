"""Polls a deployment in a thread of its own, so that its latest reading can be shown without waiting.

An endpoint that hangs holds its own thread and nobody else's; what was seen last is shown with its age.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self

from upright.base.errors import EndpointError, UprightError
from upright.engines import ENGINES
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import Metrics, read_metrics
from upright.serving.endpoint.slots import read_slots

PATIENCE_SECONDS = 5.0
"""How long one reading may take."""
_SMOOTH_SECONDS = 5.0
"""Rates are means over at least this: an engine that counts at the end of a request would jump."""
_REMEMBERED = 600


@dataclass(frozen=True)
class DeploymentSummary:
    """What is known of a deployment without asking its engine."""

    name: str
    state: str
    reason: str | None = None
    software: str | None = None
    model: str | None = None
    base_url: str | None = None
    next: str | None = None
    """What a person would type now."""


@dataclass(frozen=True)
class DeploymentReading:
    """One deployment at one moment. None is: the engine does not say."""

    look: DeploymentSummary
    age_seconds: float | None = None
    """Since the last reading that came; None if none ever did."""
    problem: str | None = None
    """Why the last try brought none."""
    output_per_second: float | None = None
    prompt_per_second: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    cached: float | None = None
    """Share of the prompt tokens that the cache had, while it was watched."""
    acceptance: float | None = None
    """Share of the guesses that held, while it was watched."""
    errors: float | None = None
    """Requests that failed while it was watched."""
    first_token_seconds: float | None = None
    """Mean of those that came while it was watched."""
    watts: float | None = None
    """Of its whole machine."""
    watts_basis: str | None = None
    outputs: tuple[float, ...] = ()
    """Tokens out a second, reading by reading, the newest last."""
    prompts: tuple[float, ...] = ()


class ReadingSource(Protocol):
    """Where readings come from."""

    def look(self) -> DeploymentSummary: ...
    def read(self) -> Metrics: ...


@dataclass
class DeploymentSource:
    """A deployment's own endpoint. `look` is whoever knows its state."""

    look: Callable[[], DeploymentSummary]
    base_url: str
    key: str | None
    path: str | None = "/metrics"
    """None if no metrics can be reached from here: only what `look` says is known."""
    _endpoint: Endpoint | None = field(default=None, init=False)

    def read(self) -> Metrics:
        """EndpointError if it does not answer in time."""
        if self.path is None:
            return Metrics()
        if self._endpoint is None:
            self._endpoint = Endpoint(self.base_url, "", key=self.key, timeout_seconds=PATIENCE_SECONDS)
        page = self._endpoint.text(self.path)
        metrics = read_metrics("".join(line for line in page.splitlines(keepends=True) if "_bucket{" not in line))
        return self._with_slots(metrics) if _has_slots(page) else metrics

    def _with_slots(self, metrics: Metrics) -> Metrics:
        assert self._endpoint is not None
        try:
            slots = read_slots(self._endpoint.json_list("/slots"))
        except EndpointError:
            return metrics  # it was started without them
        tokens = metrics.generation_tokens
        tokens = None if tokens is None else tokens + slots.decoded_tokens
        usage = slots.usage if metrics.kv_usage is None else metrics.kv_usage
        return replace(metrics, generation_tokens=tokens, kv_usage=usage)


def _has_slots(page: str) -> bool:
    """Whether an engine wrote it that gives each request a slot, and tells of them elsewhere."""
    prefixes = {engine.metrics.prefix for engine in ENGINES.values() if engine.http.slots} - {""}
    return any(page.startswith(prefix) or f"\n{prefix}" in page for prefix in prefixes)


class DeploymentPoller:
    """Reads one source every few seconds until it is closed."""

    def __init__(
        self, source: ReadingSource, every_seconds: float, watts: Callable[[], tuple[float, str] | None]
    ) -> None:
        self._source, self._every, self._watts = source, every_seconds, watts
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._look = source.look()
        self._first: Metrics | None = None
        self._readings: deque[tuple[float, Metrics]] = deque(maxlen=_REMEMBERED)
        self._outputs: deque[float] = deque(maxlen=_REMEMBERED)
        self._prompts: deque[float] = deque(maxlen=_REMEMBERED)
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Does not wait: a thread that hangs in a read ends with the process."""
        self._stop.set()

    @property
    def settled(self) -> bool:
        """Whether two readings came, or the last try failed: more would be said by waiting longer, but not sooner."""
        with self._lock:
            return len(self._readings) >= 2 or self._problem is not None

    def sight(self) -> DeploymentReading:
        """What can be said now; takes no time."""
        with self._lock:
            now = time.monotonic()
            if not self._readings:
                return DeploymentReading(self._look, problem=self._problem)
            at, last = self._readings[-1]
            grown = last.since(self._first) if self._first is not None else last
            old = next((reading for reading in self._readings if at - reading[0] <= self._smooth), self._readings[-1])
            seconds, lately = at - old[0], last.since(old[1])
            watts = self._watts()
            return DeploymentReading(
                look=self._look,
                age_seconds=now - at,
                problem=self._problem,
                output_per_second=_ratio(lately.generation_tokens, seconds),
                prompt_per_second=_ratio(lately.prompt_tokens or lately.computed_tokens, seconds),
                running=last.running,
                waiting=last.waiting,
                kv_usage=last.kv_usage,
                cached=_ratio(grown.cached_tokens, grown.prompt_tokens),
                acceptance=grown.acceptance,
                errors=grown.errors,
                first_token_seconds=_ratio(grown.first_token_seconds, grown.first_tokens),
                watts=watts[0] if watts else None,
                watts_basis=watts[1] if watts else None,
                outputs=tuple(self._outputs),
                prompts=tuple(self._prompts),
            )

    @property
    def _smooth(self) -> float:
        return max(_SMOOTH_SECONDS, 3 * self._every) + self._every / 2

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                look = self._source.look()
                metrics, problem = self._source.read(), None
            except UprightError as error:
                metrics, problem = None, error.message
                look = self._looked()
            self._take(began, look, metrics, problem)
            self._stop.wait(max(0.0, self._every - (time.monotonic() - began)))

    def _looked(self) -> DeploymentSummary:
        """The state after a failure is more than the one before it."""
        try:
            return self._source.look()
        except UprightError as error:
            return replace(self._look, state="unreadable", reason=error.message)

    def _take(self, at: float, look: DeploymentSummary, metrics: Metrics | None, problem: str | None) -> None:
        with self._lock:
            self._look, self._problem = look, problem
            if metrics is None:
                self._outputs.append(0.0)
                self._prompts.append(0.0)
                return
            if self._readings:
                then, before = self._readings[-1]
                grown = metrics.since(before)
                self._outputs.append(_ratio(grown.generation_tokens, at - then) or 0.0)
                self._prompts.append(_ratio(grown.prompt_tokens or grown.computed_tokens, at - then) or 0.0)
            if self._first is None or _restarted(self._first, metrics):
                self._first = metrics
                self._readings.clear()
            self._readings.append((at, metrics))


def _restarted(first: Metrics, now: Metrics) -> bool:
    """Counters that shrank are those of a new engine."""
    return (now.generation_tokens or 0) < (first.generation_tokens or 0)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None

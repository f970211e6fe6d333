"""Progress of a fetch: bytes done, rate, time left."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

_WINDOW_SECONDS = 10.0


@dataclass(frozen=True)
class FetchProgress:
    """Where a fetch stands."""

    done_bytes: int
    """On this disk, those of earlier runs included."""
    total_bytes: int
    verified_bytes: int
    """Hashed in this run."""
    rate_bytes_per_second: float | None
    """Of the last ten seconds; None before there is one."""
    left_seconds: float | None
    files_done: int
    files: int
    retries: int
    """Exchanges that had to be repeated."""


@dataclass
class Pace:
    """Remembers the last seconds."""

    points: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, received_bytes: int, now: float | None = None) -> float | None:
        now = time.monotonic() if now is None else now
        self.points.append((now, received_bytes))
        while len(self.points) > 2 and now - self.points[0][0] > _WINDOW_SECONDS:
            self.points.popleft()
        first, before = self.points[0]
        return (received_bytes - before) / (now - first) if now - first > 0.2 else None

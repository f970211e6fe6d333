"""What a person is told who waits: a line at each step, and one where a step takes long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from upright.base.units import format_duration

Tell = Callable[[str], None]
"""Takes one line for a person who waits; what it does with it is the caller's."""

_FIRST_SILENCE_SECONDS, _LONGEST_SILENCE_SECONDS = 5.0, 60.0


def utc_now() -> str:
    """As records have it: `2026-11-16T05:14:00.000+00:00`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Pulse:
    """A `Tell` that is not silent for long while something is watched: after 5 seconds without a word, and then after
    twice as long each time, up to a minute, it says how far that has come."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._lock = tell, threading.Lock()
        self._watched: list[Callable[[], str]] = []
        self._last, self._last_at, self._due, self._silence = "", 0.0, 0.0, 0.0

    def __call__(self, words: str) -> None:
        self._last = words.strip()
        self._rest()
        self._tell(words)

    @contextmanager
    def watching(self, words: Callable[[], str] | None = None) -> Iterator[None]:
        """`words` is asked for that line; of several at a time, the newest. None, where nothing can be counted: how
        long ago the last line was."""
        words = words or self._since_the_last
        with self._lock:
            self._watched.append(words)
            if len(self._watched) == 1:
                self._rest()
                threading.Thread(target=self._beat, daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._watched.remove(words)

    def _rest(self) -> None:
        self._last_at, self._silence = time.monotonic(), _FIRST_SILENCE_SECONDS
        self._due = self._last_at + self._silence

    def _beat(self) -> None:
        """Ends by itself soon after nothing is watched any more."""
        while True:
            time.sleep(0.2)
            with self._lock:
                if not self._watched:
                    return
                if time.monotonic() < self._due:
                    continue
                words = self._watched[-1]
                self._silence = min(2 * self._silence, _LONGEST_SILENCE_SECONDS)
                self._due = time.monotonic() + self._silence
            self._tell(words())

    def _since_the_last(self) -> str:
        so_far = f"  {format_duration(time.monotonic() - self._last_at)} so far"
        return f"{so_far}: {self._last}" if self._last else so_far


def pulsing(tell: Tell) -> Pulse:
    return tell if isinstance(tell, Pulse) else Pulse(tell)


def pace(done: int, of: int, seconds: float, things: str) -> str:
    """`8 of 22 questions, 7.5 a minute, about 2 min left`: no rate before one is done."""
    counted = f"{done:,} of {of:,} {things} after {format_duration(seconds)}"
    if not done or not seconds:
        return counted
    rate, unit = next(
        (rate, unit) for rate, unit in ((done / seconds, "second"), (60 * done / seconds, "minute"),
        (3600 * done / seconds, "hour")) if rate >= 1 or unit == "hour"
    )  # fmt: skip
    return f"{counted}, {rate:.3g} a {unit}, about {format_duration((of - done) * seconds / done)} left"

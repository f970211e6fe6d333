"""Progress of a fetch -> a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from upright.base.terminal.messages import say
from upright.base.terminal.safe_output import console
from upright.base.units import format_duration, format_size

if TYPE_CHECKING:
    from upright.serving.fetch import FetchProgress

_EVERY_SECONDS = 5.0


@contextmanager
def fetch_progress_bar(title: str, *, alone: bool = True) -> Iterator[Callable[[FetchProgress], None]]:
    """What to hand to `fetch` as its `on_progress`; lines where others talk meanwhile."""
    if alone and sys.stderr.isatty():
        with _bar() as shown:
            yield shown
    else:
        yield _Lines(title)


class _Lines:
    def __init__(self, title: str) -> None:
        self._title = title
        self._next: float | None = None

    def __call__(self, progress: FetchProgress) -> None:
        now = time.monotonic()
        if self._next is None:
            self._next = now + _EVERY_SECONDS
        if now >= self._next and progress.done_bytes < progress.total_bytes:
            self._next = now + _EVERY_SECONDS
            say(f"fetching {self._title}: {words(progress)}")


def words(progress: FetchProgress) -> str:
    """`12 %, 70.1 GB of 595 GB, 112 MB/s, 1 h 18 min left`."""
    share = progress.done_bytes / progress.total_bytes if progress.total_bytes else 1.0
    parts = [
        f"{share:.0%}".replace("%", " %"),
        f"{format_size(progress.done_bytes)} of {format_size(progress.total_bytes)}",
    ]
    if progress.done_bytes >= progress.total_bytes:
        left = progress.total_bytes - progress.verified_bytes
        parts.append(f"{format_size(left)} to verify" if left > 0 else "verified")
    elif progress.rate_bytes_per_second:
        parts.append(f"{format_size(progress.rate_bytes_per_second)}/s")
        parts.append(f"{format_duration(progress.left_seconds or 0)} left")
    else:
        parts.append("waiting for the hub")
    if progress.retries:
        parts.append(f"{progress.retries} repeated")
    return ", ".join(parts)


@contextmanager
def _bar() -> Iterator[Callable[[FetchProgress], None]]:
    """Drawn from the first progress on: what is here already needs none."""
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    status_column = TextColumn("{task.fields[said]}", markup=False)
    bars = Bars(
        TextColumn("fetching"), BarColumn(bar_width=12), status_column, console=console(stderr=True), transient=True
    )
    task = bars.add_task("", total=None, said="")

    def shown(progress: FetchProgress) -> None:
        bars.update(task, total=progress.total_bytes, completed=progress.done_bytes, said=words(progress))
        if not bars.live.is_started:
            bars.start()

    try:
        yield shown
    finally:
        bars.stop()

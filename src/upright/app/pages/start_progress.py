"""A deployment's changes -> a bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from upright.base import units
from upright.base.progress import Tell
from upright.base.terminal.messages import watched
from upright.base.terminal.safe_output import console

if TYPE_CHECKING:
    from upright.facts.records.deployment import Deployment, Progress

_PHASES = {
    "pull": "pulling the image",
    "weights": "reading the weights",
    "compile": "compiling",
    "graphs": "capturing graphs",
    "warmup": "warming up",
}
_PIECES = {"pull": "layers", "weights": "shards", "graphs": "graphs"}
_STEP_PERCENT = 10


@contextmanager
def start_progress_bar(weights_bytes: int | None = None) -> Iterator[Callable[[Deployment], None]]:
    """Hands out what to call at every change; `weights_bytes` turns a percentage into a rate."""
    if not sys.stderr.isatty():
        with watched() as tell:
            yield _lines(weights_bytes, tell)
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[words]}", style="dim", markup=False),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task("planned", total=None, words="")
        printed: list[str] = []

        def on_change(now: Deployment) -> None:
            progress = now.progress
            name = _PHASES[progress.phase] if progress else now.state
            percent = progress.percent if progress else None
            status = start_progress_words(progress, weights_bytes) if progress else ""
            total = None if percent is None else 100
            bars.update(task, description=name, total=total, completed=percent or 0, words=status)
            _say_once(state_words(now), printed, bars.console.print)

        yield on_change


def state_words(now: Deployment) -> str:
    return now.state + (f": {now.reason}" if now.reason else "")


def start_progress_words(progress: Progress, weights_bytes: int | None) -> str:
    """33 %, 1 of 3 shards, 1.2 GB/s, 49 s left: what of it is known."""
    parts = []
    if progress.percent is not None:
        parts.append(f"{progress.percent:.0f} %")
    if progress.of is not None:
        pieces = _PIECES.get(progress.phase, "parts")
        parts.append(
            f"{progress.of} {pieces}" if progress.done is None else f"{progress.done} of {progress.of} {pieces}"
        )
    if progress.phase == "weights" and weights_bytes and progress.percent and progress.seconds:
        parts.append(f"{units.format_size(int(weights_bytes * progress.percent / 100 / progress.seconds))}/s")
    if progress.seconds_left:
        parts.append(f"{units.format_duration(progress.seconds_left)} left")
    return ", ".join(parts)


def _lines(weights_bytes: int | None, tell: Tell) -> Callable[[Deployment], None]:
    printed: list[str] = []
    step: list[tuple[str, int]] = []

    def on_change(now: Deployment) -> None:
        _say_once(state_words(now), printed, tell)
        if now.progress is None:
            return
        here = (now.progress.phase, int((now.progress.percent or 0) // _STEP_PERCENT))
        if step[-1:] != [here]:
            step.append(here)
            status = start_progress_words(now.progress, weights_bytes)
            tell(f"  {_PHASES[now.progress.phase]}" + (f": {status}" if status else ""))

    return on_change


def _say_once(words: str, said: list[str], tell: Tell) -> None:
    if said[-1:] != [words]:
        said.append(words)
        tell(words)

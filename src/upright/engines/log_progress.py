"""Progress of a start or an image pull, read from lines of a log.

Loaders draw bars (tqdm), or a dot for each percent; whose sentences are which is in the engines' own folders. What they
say is taken, and nothing is reckoned where they say nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from upright.engines import ENGINES
from upright.engines.facets.log import READY
from upright.facts.records.deployment import Phase, Progress

_BAR = re.compile(
    r"(?P<percent>\d{1,3})%(?: Completed |\|[^|]*)\| *(?P<done>\d+)/(?P<of>\d+) \[(?P<spent>[\d:]+)<(?P<left>[\d:]+|\?)"
)
_SURE_PERCENT = 3
"""Below this a rate is a guess."""
_DOTS = re.compile(r"\.{2,100}")
_LAYER = re.compile(r"(?P<layer>[0-9a-f]{12}): (?P<what>Pulling fs layer|Already exists|Pull complete)")
_BLOB = re.compile(r"Copying blob (?:sha256:)?(?P<blob>[0-9a-f]{12,64})(?P<what> done| skipped: already exists)?")


def progress_of_line(line: str) -> Progress | None:
    """What one line says by itself; None if it is about something else."""
    bar = _BAR.search(line)
    for pattern, phase in _patterns("bars") if bar is not None else ():
        if bar is not None and pattern.search(line[: bar.start()]):
            done, of = int(bar["done"]), int(bar["of"])
            left = None if bar["left"] == "?" or done == 0 else _seconds(bar["left"])
            return Progress(
                phase=phase,
                done=done,
                of=of,
                percent=float(bar["percent"]),
                seconds=float(_seconds(bar["spent"])),
                seconds_left=left,
            )
    for pattern, phase in _patterns("phases"):
        if pattern.search(line):
            return Progress(phase=phase)
    if _DOTS.fullmatch(line.strip()) and any(engine.log.dots for engine in ENGINES.values()):
        # A dot is printed for each whole percent that is reached, and one for several at once: at least so far.
        return Progress(phase="weights", percent=float(len(line.strip())))
    return None


def says_ready(line: str) -> bool:
    """Whether an engine says there that it takes requests: what it tells of its start is above."""
    return bool(_ready().search(line))


@cache
def _ready() -> re.Pattern[str]:
    marks = [mark.pattern for engine in ENGINES.values() for mark in engine.log.marks if mark.means == "ready"]
    return re.compile("|".join((*READY, *dict.fromkeys(marks))))


@cache
def _patterns(kind: Literal["bars", "phases"]) -> tuple[tuple[re.Pattern[str], Phase], ...]:
    """Of all engines, each once."""
    pairs = dict.fromkeys(pair for engine in ENGINES.values() for pair in getattr(engine.log, kind))
    return tuple((re.compile(pattern), phase) for pattern, phase in pairs)


def with_times(said: Progress, elapsed_seconds: float) -> Progress:
    """The same with times by our own clock, where a percentage came without them."""
    if said.percent is None or said.seconds is not None:
        return said
    known = elapsed_seconds > 0 and said.percent >= _SURE_PERCENT
    left = round(elapsed_seconds * (100 - said.percent) / said.percent, 1) if known else None
    return said.model_copy(update={"seconds": round(elapsed_seconds, 1), "seconds_left": left})


@dataclass
class Pull:
    """The lines of `docker pull` or `podman pull` so far. Podman names a layer once, so how far it is stays unknown."""

    seen: dict[str, bool] = field(default_factory=dict)

    def take(self, line: str) -> Progress | None:
        if layer_match := _LAYER.search(line):
            layer, done = layer_match["layer"], layer_match["what"] != "Pulling fs layer"
        elif layer_match := _BLOB.search(line):
            layer, done = layer_match["blob"][:12], layer_match["what"] is not None
        else:
            return None
        self.seen[layer] = done or self.seen.get(layer, False)
        done_layers = sum(self.seen.values())
        if not done_layers:
            return Progress(phase="pull", of=len(self.seen))
        percent = round(100 * done_layers / len(self.seen), 1)
        return Progress(phase="pull", done=done_layers, of=len(self.seen), percent=percent)


def lines(text: str) -> list[str]:
    """A log's text as lines: a bar redraws itself with a carriage return."""
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def _seconds(clock: str) -> int:
    """01:40 or 1:02:03."""
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return total

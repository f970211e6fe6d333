"""Sights of deployments + a terminal's size -> the lines of one screen. Draws nothing itself."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from upright.app.pages.deployment_pages import COLOURS
from upright.base import units
from upright.serving.monitor.polling import DeploymentReading

_WIDE = 140
"""From so many columns on there is room for the engine, the first token and the address."""
_TALLEST = 12
_HEAD_LINES = 3
_BLOCKS = " ▁▂▃▄▅▆▇█"
_NONE = "—"
_ANSWERING = frozenset({"ready", "degraded", "answers"})


@dataclass(frozen=True)
class Column:
    """A figure of the table; `width` with the space before it."""

    title: str
    width: int
    cell: Any
    """Sight -> str."""


_COLUMNS = (
    Column("out/s", 7, lambda sight: _rate(sight.output_per_second)),
    Column("in/s", 7, lambda sight: _rate(sight.prompt_per_second)),
    Column("run", 5, lambda sight: _count(sight.running)),
    Column("wait", 5, lambda sight: _count(sight.waiting)),
    Column("KV", 6, lambda sight: _share(sight.kv_usage)),
    Column("hits", 6, lambda sight: _share(sight.cached)),
    Column("acc", 6, lambda sight: _share(sight.acceptance)),
    Column("err", 5, lambda sight: _count(sight.errors)),
    Column("W", 6, lambda sight: _count(sight.watts)),
)
_FIRST = Column(
    "first", 9, lambda sight: _NONE if (t := sight.first_token_seconds) is None else units.format_duration(t)
)
_STATE = 10


def screen(
    sights: Sequence[DeploymentReading],
    width: int,
    height: int,
    clock: str,
    every_seconds: float,
    silent_seconds: float,
) -> list[Text]:
    """At most `height` lines of at most `width` columns."""
    lines = [_title(sights, width, clock), Text(), _heading(sights, width)]
    foot = _foot(sights, width, every_seconds)
    room = height - len(lines) - 1
    lines_per_sight = max(1, room // max(1, len(sights)))
    shown = sights if len(sights) <= room else sights[: max(0, room - 1)]
    for sight in shown:
        state = state_of(sight, silent_seconds)
        block = [_row(sight, state, width, _names_width(sights, width))]
        block += _below(sight, state, width, lines_per_sight - 1, every_seconds)
        lines += block[:lines_per_sight]
    if len(shown) < len(sights):
        lines.append(Text(f"and {len(sights) - len(shown)} more: a taller terminal shows them, or name some"[:width]))
    lines = lines[: height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    return [*lines, foot]


def table(sights: Sequence[DeploymentReading], width: int, silent_seconds: float) -> list[Text]:
    """Once, for no terminal: a line for each, and what is wrong with it."""
    lines = [_heading(sights, width)]
    for sight in sights:
        state = state_of(sight, silent_seconds)
        lines.append(_row(sight, state, width, _names_width(sights, width)))
        lines += _trouble(sight, state, width)
    return lines


def state_of(sight: DeploymentReading, silent_seconds: float) -> str:
    """`silent` is what should answer and does not."""
    late = sight.age_seconds is None or sight.age_seconds > silent_seconds
    if sight.look.state in _ANSWERING and (sight.problem is not None or (late and sight.age_seconds is not None)):
        return "silent"
    return sight.look.state


def as_row(sight: DeploymentReading, silent_seconds: float) -> dict[str, Any]:
    """For programs; rates are tokens a second, shares from 0 to 1."""
    state = state_of(sight, silent_seconds)
    return {
        "name": sight.look.name,
        "state": state,
        "reason": sight.problem or sight.look.reason,
        "next": None if state in _ANSWERING else sight.look.next,
        "engine": sight.look.software,
        "model": sight.look.model,
        "base_url": sight.look.base_url,
        "output_tokens_per_second": sight.output_per_second,
        "prompt_tokens_per_second": sight.prompt_per_second,
        "requests_running": sight.running,
        "requests_waiting": sight.waiting,
        "kv_usage": sight.kv_usage,
        "cached_share": sight.cached,
        "acceptance": sight.acceptance,
        "errors": sight.errors,
        "first_token_seconds": sight.first_token_seconds,
        "watts": sight.watts,
        "watts_of": sight.watts_basis,
    }


def _title(sights: Sequence[DeploymentReading], width: int, clock: str) -> Text:
    total = sum(sight.output_per_second or 0 for sight in sights)
    count = "1 deployment" if len(sights) == 1 else f"{len(sights)} deployments"
    summary = f"  {count}, {_rate(total)} tokens/s out"
    left = Text.assemble(("upright tools top", "bold"), summary)
    left.truncate(width - len(clock) - 1)
    left.append(" " * (width - len(left.plain) - len(clock)))
    left.append(clock, "dim")
    return left


def _columns(width: int) -> tuple[Column, ...]:
    return (*_COLUMNS, _FIRST) if width >= _WIDE else _COLUMNS


def _names_width(sights: Sequence[DeploymentReading], width: int) -> int:
    """What the longest name wants, within what the figures leave."""
    room = width - _STATE - sum(column.width for column in _columns(width))
    longest = max((len(sight.look.name) for sight in sights), default=4)
    return max(4, min(room - 2, longest))


def _heading(sights: Sequence[DeploymentReading], width: int) -> Text:
    line = "name".ljust(_names_width(sights, width)) + "  " + "state".ljust(_STATE - 2)
    line += "".join(column.title.rjust(column.width) for column in _columns(width))
    if width >= _WIDE:
        line += "  engine, model, address"
    return Text(line[:width], "dim")


def _row(sight: DeploymentReading, state: str, width: int, names: int) -> Text:
    name = sight.look.name
    line = Text.assemble(((name if len(name) <= names else f"{name[: names - 1]}…").ljust(names) + "  ", "bold"))
    line.append(state[: _STATE - 2].ljust(_STATE - 2), "red" if state == "silent" else COLOURS.get(state, ""))
    gone = state not in _ANSWERING
    for column in _columns(width):
        text = _NONE if gone else column.cell(sight)
        line.append(text.rjust(column.width), _alarm(column.title, sight) if not gone else "dim")
    if width >= _WIDE:
        look = sight.look
        line.append("  " + ", ".join(filter(None, (look.software, look.model, look.base_url))), "dim")
    line.truncate(width, overflow="ellipsis")
    return line


def _alarm(title: str, sight: DeploymentReading) -> str:
    if title == "KV" and (sight.kv_usage or 0) > 0.95:
        return "red"
    if (title == "wait" and (sight.waiting or 0) > 0) or (title == "err" and (sight.errors or 0) > 0):
        return "yellow" if title == "wait" else "red"
    return ""


def _below(sight: DeploymentReading, state: str, width: int, room: int, every_seconds: float) -> list[Text]:
    """What is wrong; or the last minutes as a picture, if there is room for one."""
    trouble = _trouble(sight, state, width)
    if trouble or room < 1:
        return [*trouble, Text()]
    tall = min(room - 1, _TALLEST) if room > 1 else 1
    if width < _WIDE:
        return [*_chart("out", sight.outputs, width, tall, every_seconds), *([Text()] if room > tall else [])]
    half = width // 2 - 1
    left = _chart("out", sight.outputs, half, tall, every_seconds)
    right = _chart("in", sight.prompts, half, tall, every_seconds)
    both = [Text.assemble(a, " " * (half + 2 - len(a.plain)), b) for a, b in zip(left, right, strict=True)]
    return [*both, *([Text()] if room > tall else [])]


def _trouble(sight: DeploymentReading, state: str, width: int) -> list[Text]:
    if state in _ANSWERING:
        return []
    reason = sight.problem if state == "silent" else sight.look.reason
    if state == "silent" and sight.age_seconds is not None:
        reason = f"no answer for {units.format_duration(sight.age_seconds)}" + (f": {reason}" if reason else "")
    lines = [Text(f"  {line}") for line in textwrap.wrap(reason or "", width - 2)[:3]]
    if sight.look.next:
        lines.append(Text(f"  next: {sight.look.next}"[:width], "bold"))
    return lines


def _chart(name: str, values: Sequence[float], width: int, tall: int, every_seconds: float) -> list[Text]:
    """The newest at the right; its scale is written at its left."""
    label = max(8, len(name) + 2)
    drawn = list(values[-(width - label) :])
    most = max(drawn, default=0.0)
    lines = []
    for line in range(tall - 1, -1, -1):
        blocks = "".join(_BLOCKS[_eighths(level, most, line, tall)] for level in drawn)
        mark = f"{name} {_rate(most)}" if line == tall - 1 else ""
        span = units.format_duration(len(drawn) * every_seconds) if line == 0 and tall > 1 and drawn else ""
        text = Text.assemble(((mark or span)[: label - 1].ljust(label), "dim"))
        text.append(blocks.rjust(width - label), "cyan")
        lines.append(text)
    return lines


def _eighths(value: float, most: float, line: int, tall: int) -> int:
    """Of the character at this height, how many eighths are filled; what is not nothing shows at the bottom."""
    if most <= 0 or value <= 0:
        return 0
    filled = max(1, round(8 * tall * value / most))
    return min(8, max(0, filled - 8 * line))


def _foot(sights: Sequence[DeploymentReading], width: int, every_seconds: float) -> Text:
    hints = [f"every {units.format_duration(every_seconds)}", "q leaves"]
    basis = next((sight.watts_basis for sight in sights if sight.watts_basis), None)
    if basis:
        hints.append(f"W: its whole machine's {basis}")
    hints.append("hits, acc, err: since it is watched")
    return Text(" · ".join(hints)[:width], "dim")


def _rate(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def _count(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.0f}%"

"""Line, bar and heat-map plots as SVG in the page's colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from upright.base.untrusted_text import on_one_line

WIDTH, HEIGHT = 400, 220
_INK, _SOFT, _GRID, _PAGE = "var(--ink)", "var(--soft)", "var(--line)", "var(--page)"
_SERIES = tuple(f"var(--c{number})" for number in range(6))
_PLAIN = {_INK: "#1c2230", _SOFT: "#5d6678", _GRID: "#dfe3ea", _PAGE: "#ffffff"}
_CHARACTER = 6.1
"""Pixels of a character at the size of a label, on the wide side."""
_HEAD, _RIGHT, _BOTTOM, _PAD = 28, 10, 40, 14
_LONGEST_NAME = 30
_WIDE = 6
"""Doublings are as far apart as each other from here on: last over first."""
_MANY = 12
"""Places on an axis that are each named; of more, round values are."""
_BAR, _GROUP_GAP = 13, 9


@dataclass(frozen=True)
class PlotPoint:
    """A figure with its interval; one that is marked is drawn hollow."""

    series: str
    x: float
    y: float
    low: float
    high: float
    marked: bool = False


@dataclass(frozen=True)
class PlotCell:
    """A square of a field, by its place from the left and from the top."""

    column: int
    row: int
    strength: float
    text: str


@dataclass(frozen=True)
class _Frame:
    """Where values lie on the picture."""

    left: float
    right: float
    top: float
    bottom: float
    xs: tuple[float, ...]
    highest: float

    def across(self, x: float) -> float:
        first, last = self.xs[0], self.xs[-1]
        if last == first:
            return (self.left + self.right) / 2
        if first > 0 and last / first > _WIDE:
            share = math.log(x / first) / math.log(last / first)
        else:
            share = (x - first) / (last - first)
        return self.left + _PAD + share * (self.right - self.left - 2 * _PAD)

    def up(self, y: float) -> float:
        return self.bottom - min(max(0.0, y), self.highest) / self.highest * (self.bottom - self.top)


def line_plot(points: Sequence[PlotPoint], names: Sequence[str], x_title: str, title: str) -> str:
    """Curves with their intervals. One that is very unsure ends at the edge, so that the curve keeps its shape."""
    points = [point for point in points if all(map(math.isfinite, (point.x, point.y, point.low, point.high)))]
    if not points:
        return _picture(title, [_text(0, _HEAD + 12, "nothing here can be drawn")], _HEAD + 24)
    reach, highest = max(point.high for point in points), max(point.y for point in points)
    top = max(1.4 * highest if reach > 2 * highest else reach, 1e-6)
    ticks = tick_values(top)
    left = 10 + _CHARACTER * max(len(label) for label in tick_labels(ticks))
    xs = tuple(sorted({point.x for point in points}))
    frame = _Frame(left, WIDTH - _RIGHT, _HEAD, HEIGHT - _BOTTOM, xs, max(top, ticks[-1]))
    keys = list(_keys(names, HEIGHT + 4)) if len(names) > 1 else []
    shapes = [*_y_axis(frame, ticks), *_x_axis(frame, x_title)]
    for number, name in enumerate(names):
        curve = sorted((point for point in points if point.series == name), key=lambda point: point.x)
        shapes += _curve(frame, curve, _SERIES[number % len(_SERIES)])
    return _picture(title, [*shapes, *keys], HEIGHT + (18 * _key_lines(names) if keys else 0))


def bar_plot(parts: Sequence[tuple[str, str, float]], title: str) -> str:
    """(group, name, amount): the groups' bars under each other for each name."""
    groups = list(dict.fromkeys(group for group, _, _ in parts))
    names = list(dict.fromkeys(name for _, name, _ in parts))
    left = 12 + _CHARACTER * max(len(_short(name)) for name in names)
    ticks = tick_values(max(1e-6, *(amount for _, _, amount in parts)))
    step = _BAR * len(groups) + _GROUP_GAP
    bottom = _HEAD + step * len(names)
    scale = (WIDTH - _RIGHT - 12 - left) / ticks[-1]
    shapes = []
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        x = left + tick * scale
        shapes.append(_rule(x, _HEAD, x, bottom))
        shapes.append(_text(x, bottom + 14, label, anchor="middle"))
    for row, name in enumerate(names):
        top = _HEAD + row * step + _GROUP_GAP / 2
        shapes.append(_text(left - 6, top + _BAR * len(groups) / 2 + 4, _short(name), anchor="end"))
        for group, named, amount in parts:
            if named == name:
                place = groups.index(group)
                shapes.append(_bar(left, top + place * _BAR, amount * scale, _SERIES[place % len(_SERIES)]))
    height = bottom + 24
    return _picture(title, [*shapes, *_keys(groups, height)], height + 18 * _key_lines(groups))


def field_plot(
    cells: Sequence[PlotCell], columns: Sequence[str], rows: Sequence[str], titles: tuple[str, str, str]
) -> str:
    """A square for each cell, darker where there is more; `titles` are the picture's, the columns' and the rows'."""
    title, across, down = titles
    left = 14 + _CHARACTER * max(len(label) for label in rows)
    width, tall = (WIDTH - _RIGHT - left) / len(columns), 30
    top = _HEAD + 14
    bottom = top + tall * len(rows)
    shapes = [_text(8, _HEAD + 6, down)]
    for cell in cells:
        x, y = left + cell.column * width, top + cell.row * tall
        shapes.append(
            f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{width - 2:.1f}" height="{tall - 2}" fill="{_SERIES[0]}" '
            f'opacity="{0.12 + 0.63 * cell.strength:.2f}"/>'
        )
        shapes.append(_text(x + width / 2, y + tall / 2 + 4, cell.text, anchor="middle", colour=_INK))
    for number, label in enumerate(rows):
        shapes.append(_text(left - 6, top + number * tall + tall / 2 + 4, label, anchor="end"))
    for number, label in enumerate(columns):
        shapes.append(_text(left + (number + 0.5) * width, bottom + 14, label, anchor="middle"))
    shapes.append(_text((left + WIDTH - _RIGHT) / 2, bottom + 30, across, anchor="middle"))
    return _picture(title, shapes, bottom + 38)


def in_plain_colours(svg: str) -> str:
    """For a file of its own: no page gives it colours, and it says what it is."""
    for variable, colour in (*_PLAIN.items(), *((name, "#2f66b0") for name in _SERIES)):
        svg = svg.replace(variable, colour)
    return svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def tick_values(top: float) -> list[float]:
    """Round values from zero to the first at or above the top, four to seven of them."""
    rough = top / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(top / step - 1e-9) + 1)]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """All with as many places as their distance needs."""
    step = ticks[1] - ticks[0]
    places = next((count for count in range(7) if math.isclose(step, round(step, count), rel_tol=1e-6)), 7)
    return [f"{tick:,.{places}f}" for tick in ticks]


def _curve(frame: _Frame, points: Sequence[PlotPoint], colour: str) -> Iterator[str]:
    for point in points:
        if point.high > point.low:
            x = frame.across(point.x)
            yield (
                f'<line x1="{x:.1f}" y1="{frame.up(point.low):.1f}" x2="{x:.1f}" y2="{frame.up(point.high):.1f}" '
                f'stroke="{colour}" stroke-width="1.5" opacity="0.6"/>'
            )
    places = [(frame.across(point.x), frame.up(point.y)) for point in points]
    if len(places) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for point, (x, y) in zip(points, places, strict=True):
        if len(points) > _MANY * 3 and not point.marked:
            continue
        inside = _PAGE if point.marked else colour
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="{inside}" stroke="{colour}" stroke-width="2"/>'


def _y_axis(frame: _Frame, ticks: Sequence[float]) -> Iterator[str]:
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        y = frame.up(tick)
        yield _rule(frame.left, y, frame.right, y)
        yield _text(frame.left - 6, y + 4, label, anchor="end")


def _x_axis(frame: _Frame, title: str) -> Iterator[str]:
    taken, first, last = -math.inf, frame.xs[0], frame.xs[-1]
    for x in frame.xs if len(frame.xs) <= _MANY else [tick for tick in tick_values(last) if first <= tick <= last]:
        label, middle = _x_label(x), frame.across(x)
        half = _CHARACTER * len(label) / 2
        if middle - half > taken + 4:
            yield _text(middle, frame.bottom + 15, label, anchor="middle")
            taken = middle + half
    yield _text((frame.left + frame.right) / 2, frame.bottom + 32, title, anchor="middle")


def _x_label(x: float) -> str:
    if x >= 4096 and x % 1024 == 0:
        return f"{x / 1024:g}k"
    return f"{x:,.0f}" if x >= 20 or x == int(x) else f"{x:.2g}"


def _key_places(names: Sequence[str]) -> list[tuple[float, int]]:
    places, x, line = [], 8.0, 0
    for name in names:
        width = 22 + _CHARACTER * len(_short(name))
        if x > 8 and x + width > WIDTH:
            x, line = 8.0, line + 1
        places.append((x, line))
        x += width
    return places


def _key_lines(names: Sequence[str]) -> int:
    return _key_places(names)[-1][1] + 1


def _keys(names: Sequence[str], top: float) -> Iterator[str]:
    for number, (name, (x, line)) in enumerate(zip(names, _key_places(names), strict=True)):
        y = top + 18 * line + 8
        yield f'<circle cx="{x + 5:.1f}" cy="{y - 4:.1f}" r="4.5" fill="{_SERIES[number % len(_SERIES)]}"/>'
        yield _text(x + 14, y, _short(name), colour=_INK)


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{_BAR - 1}" fill="{colour}"/>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{_GRID}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = _SOFT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(on_one_line(text))}</text>'


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _picture(title: str, shapes: Sequence[str], height: float) -> str:
    head = f'<text x="0" y="13" font-size="13" font-weight="600" fill="{_INK}">{escape(on_one_line(title))}</text>'
    body = "".join(shapes)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="11">{head}{body}</svg>'

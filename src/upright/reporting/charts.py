"""Rows of a benchmark -> charts as SVG in the page's colours, light and dark; none without the `report` extra.

Vega-Lite draws with colours that stand for the page's variables; the SVG's text then names the variables themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from upright.benchmarking.rows import METRIC, ShapeRow
from upright.records.benchmark import Shape

WIDTH, HEIGHT = 400, 220
_STANDINS = {
    "#010101": "var(--ink)",
    "#020202": "var(--soft)",
    "#030303": "var(--line)",
    "#040404": "var(--page)",
    "#0a0a01": "var(--c0)",
    "#0a0a02": "var(--c1)",
    "#0a0a03": "var(--c2)",
    "#0a0a04": "var(--c3)",
    "#0a0a05": "var(--c4)",
    "#0a0a06": "var(--c5)",
}
_PLAIN = {"var(--ink)": "#1c2230", "var(--soft)": "#5d6678", "var(--line)": "#dfe3ea", "var(--page)": "#ffffff"}
_INK, _SOFT, _LINE, _PAGE = list(_STANDINS)[:4]
_SERIES = list(_STANDINS)[4:]


@dataclass(frozen=True)
class Chart:
    """A picture and what it shows, in words."""

    title: str
    svg: str
    words: str


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str
    rows: Sequence[ShapeRow]


def available() -> bool:
    try:
        import vl_convert  # noqa: F401
    except ImportError:
        return False
    return True


def curves(series: Sequence[Series]) -> list[Chart]:
    """Throughput, first token and each token, over what was varied; empty if there is nothing to draw."""
    if not available():
        return []
    rows = [row for curve in series for row in curve.rows]
    axis = _axis([row.shape for row in rows])
    if axis is None:
        return []
    field, axis_title = axis
    wanted = (
        ("output", "Output tokens a second", 1.0),
        ("ttft", "Time to first token, ms", 1000.0),
        ("tpot", "Time per output token, ms", 1000.0),
        ("user", "Tokens a second that one user sees", 1.0),
    )
    charts = []
    for metric, title, factor in wanted:
        drawn = (_point(curve.name, row, field, metric, factor) for curve in series for row in curve.rows)
        points = [point for point in drawn if point is not None]
        if points:
            spec = _curve(points, [curve.name for curve in series], axis_title, title)
            charts.append(Chart(title, _svg(spec), f"{title} over {axis_title}"))
    return charts


def heat(rows: Sequence[ShapeRow]) -> list[Chart]:
    """Context by concurrency, a field for each cell; empty if only one of them was varied."""
    prompts, streams = {row.shape.prompt_tokens for row in rows}, {row.shape.concurrency for row in rows}
    if not available() or len(prompts) < 2 or len(streams) < 2:
        return []
    values = []
    for row in rows:
        throughput = row.mean("output")
        if throughput is not None:
            text = f"{throughput.value:,.0f}" + ("!" if row.marked else "")
            values.append({
                "prompt": f"{row.shape.prompt_tokens:,}", "order": row.shape.prompt_tokens,
                "streams": row.shape.concurrency, "value": throughput.value, "text": text,
            })  # fmt: skip
    title = "Output tokens a second"
    return [Chart(title, _svg(_field(values, title)), "Output tokens a second by context and requests at once")]


def bars(parts: Sequence[tuple[str, str, float]], title: str) -> Chart | None:
    """(group, name, value): two bars beside each other for each name."""
    if not available() or not parts:
        return None
    values = [{"series": group, "name": name, "value": amount} for group, name, amount in parts]
    spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": {"field": "name", "type": "nominal", "sort": None, "title": None},
            "yOffset": {"field": "series", "sort": None},
            "x": {"field": "value", "type": "quantitative", "title": title, "axis": {"tickCount": 5}},
            "color": _colours(list(dict.fromkeys(group for group, _, _ in parts))),
        },
        "height": {"step": 16},
    }
    return Chart(title, _svg(spec), title)


def drawing(points: Sequence[tuple[float, float]], x_words: str, title: str) -> str:
    """A line by itself, as a file: in plain colours, since no page gives it its own."""
    text = _svg(_line(points, x_words, title), themed=False)
    return text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def over_time(points: Sequence[tuple[float, float]], x_words: str, title: str) -> Chart | None:
    """A quantity over time, for a page."""
    if not available() or len(points) < 2:
        return None
    return Chart(title, _svg(_line(points, x_words, title)), f"{title} over {x_words}")


def _line(points: Sequence[tuple[float, float]], x_words: str, title: str) -> dict[str, Any]:
    values = [{"series": title, "x": x, "y": y, "low": y, "high": y, "marked": False} for x, y in points]
    return _curve(values, [title], x_words, title)


def _axis(shapes: Sequence[Shape]) -> tuple[str, str] | None:
    """What differs between the cells."""
    for field, axis_title in (
        ("requests_per_second", "requests a second"),
        ("concurrency", "requests at once"),
        ("prompt_tokens", "tokens of a prompt"),
    ):
        if len({getattr(shape, field) for shape in shapes if getattr(shape, field) is not None}) > 1:
            return field, axis_title
    return None


def _point(name: str, row: ShapeRow, field: str, metric: str, factor: float) -> dict[str, Any] | None:
    estimate, x = row.mean(metric), getattr(row.shape, field)
    if estimate is None or x is None:
        return None
    low, high = estimate.low, estimate.high
    return {
        "series": name, "x": x, "y": factor * estimate.value, "marked": row.marked,
        "low": factor * max(0.0, estimate.value if low is None else low),
        "high": factor * (estimate.value if high is None else high),
        "text": METRIC[metric].words,
    }  # fmt: skip


def _curve(points: list[dict[str, Any]], names: list[str], x_words: str, title: str) -> dict[str, Any]:
    xs = sorted({point["x"] for point in points})
    wide = xs[-1] / max(xs[0], 1e-9) > 6
    most, highest = max(point["high"] for point in points), max(point["y"] for point in points)
    is_cut = (
        most > 2 * highest
    )  # two repeats can be very unsure: the interval ends at the edge, the curve keeps its shape
    top = 1.4 * highest if is_cut else most
    form = ",.0f" if top >= 20 else ",.1f" if top >= 2 else ",.2f"
    scale: dict[str, Any] = {"type": "log", "base": 2, "nice": False} if wide else {"zero": False, "nice": False}
    scale["padding"] = 14
    x = {
        "field": "x", "type": "quantitative", "title": x_words, "scale": scale,
        "axis": {"values": xs, "format": "~s" if xs[-1] >= 4096 else ",~g", "labelOverlap": True},
    }  # fmt: skip
    y: dict[str, Any] = {"field": "y", "type": "quantitative", "title": None, "axis": {"format": form, "tickCount": 5}}
    if is_cut:
        y["scale"] = {"domain": [0, top], "nice": False}
        points = [{**point, "high": min(point["high"], top)} for point in points]
    colour = _colours(names)
    if len(names) == 1:
        colour = {**colour, "legend": None}
    return {
        "data": {"values": points},
        "title": title,
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
            },
            {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": y, "color": colour}},
            {
                "mark": {"type": "point", "size": 44, "strokeWidth": 2, "opacity": 1},
                "encoding": {
                    "x": x, "y": y, "color": colour,
                    "fill": {"condition": {"test": "datum.marked", "value": _PAGE}, **colour, "legend": None},
                },
            },
        ],
    }  # fmt: skip


def _field(values: list[dict[str, Any]], title: str) -> dict[str, Any]:
    place = {
        "x": {"field": "streams", "type": "ordinal", "title": "requests at once", "axis": {"labelAngle": 0}},
        "y": {
            "field": "prompt", "type": "ordinal", "title": "tokens of a prompt",
            "sort": {"field": "order", "order": "descending"},
        },
    }  # fmt: skip
    return {
        "data": {"values": values},
        "title": title,
        "encoding": place,
        "layer": [
            {
                "mark": {"type": "rect", "color": _SERIES[0], "stroke": _PAGE, "strokeWidth": 2},
                "encoding": {
                    "opacity": {
                        "field": "value", "type": "quantitative", "legend": None, "scale": {"range": [0.12, 0.75]},
                    }
                },
            },
            {"mark": {"type": "text", "color": _INK}, "encoding": {"text": {"field": "text"}}},
        ],
    }  # fmt: skip


def _colours(names: Sequence[str]) -> dict[str, Any]:
    return {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(names), "range": [_SERIES[number % len(_SERIES)] for number in range(len(names))]},
        "legend": {"orient": "bottom", "symbolType": "circle", "symbolOpacity": 1},
    }


def _svg(spec: dict[str, Any], *, themed: bool = True) -> str:
    import vl_convert

    config = {
        "font": "sans-serif",
        "background": None,
        "view": {"stroke": None},
        "title": {"color": _INK, "fontSize": 13, "fontWeight": 600, "anchor": "start", "offset": 10},
        "axis": {
            "labelColor": _SOFT, "titleColor": _SOFT, "titleFontWeight": "normal", "gridColor": _LINE,
            "domainColor": _LINE, "tickColor": _LINE, "labelFontSize": 11, "titleFontSize": 11,
        },
        "axisX": {"grid": False},
        "axisY": {"domain": False, "ticks": False},
        "legend": {"labelColor": _INK, "labelFontSize": 11, "labelLimit": 320},
    }  # fmt: skip
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "width": WIDTH, "height": HEIGHT, **spec}
    text = str(vl_convert.vegalite_to_svg(json.dumps({**whole, "config": config}), vl_version="5.20"))
    for standin, variable in _STANDINS.items():
        text = text.replace(standin, variable if themed else _PLAIN.get(variable, "#2f66b0"))
    # The picture takes the width that the page gives it; nothing in it is fetched from anywhere.
    text = re.sub(r'(<svg\b[^>]*?)\swidth="[\d.]+"\sheight="[\d.]+"', r"\1", text, count=1)
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)

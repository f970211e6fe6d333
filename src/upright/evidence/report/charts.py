"""Rows of a benchmark -> charts as SVG in the page's colours, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upright.evidence.report.plots import PlotCell, PlotPoint, bar_plot, field_plot, in_plain_colours, line_plot
from upright.facts.records.benchmark import Shape
from upright.proof.benchmark.rows import ShapeRow


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


def curves(series: Sequence[Series]) -> list[Chart]:
    """Throughput, first token and each token, over what was varied; empty if there is nothing to draw."""
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
            svg = line_plot(points, [curve.name for curve in series], axis_title, title)
            charts.append(Chart(title, svg, f"{title} over {axis_title}"))
    return charts


def heat(rows: Sequence[ShapeRow]) -> list[Chart]:
    """Context by concurrency, a field for each cell; empty if only one of them was varied."""
    prompts = sorted({row.shape.prompt_tokens for row in rows}, reverse=True)
    streams = sorted({row.shape.concurrency for row in rows})
    if len(prompts) < 2 or len(streams) < 2:
        return []
    measured = [(row, estimate.value) for row in rows if (estimate := row.mean("output")) is not None]
    most = max((speed for _, speed in measured), default=0.0) or 1.0
    cells = [
        PlotCell(
            column=streams.index(row.shape.concurrency),
            row=prompts.index(row.shape.prompt_tokens),
            strength=speed / most,
            text=f"{speed:,.0f}" + ("!" if row.marked else ""),
        )
        for row, speed in measured
    ]
    title = "Output tokens a second"
    titles = (title, "requests at once", "tokens of a prompt")
    svg = field_plot(cells, [f"{count:,}" for count in streams], [f"{count:,}" for count in prompts], titles)
    return [Chart(title, svg, "Output tokens a second by context and requests at once")]


def bars(parts: Sequence[tuple[str, str, float]], title: str) -> Chart | None:
    """(group, name, amount): two bars under each other for each name."""
    return Chart(title, bar_plot(parts, title), title) if parts else None


def drawing(points: Sequence[tuple[float, float]], x_title: str, title: str) -> str:
    """A line by itself, as a file: in plain colours, since no page gives it its own."""
    return in_plain_colours(_line(points, x_title, title))


def over_time(points: Sequence[tuple[float, float]], x_title: str, title: str) -> Chart | None:
    """A quantity over time, for a page."""
    if len(points) < 2:
        return None
    return Chart(title, _line(points, x_title, title), f"{title} over {x_title}")


def _line(points: Sequence[tuple[float, float]], x_title: str, title: str) -> str:
    return line_plot([PlotPoint(title, x, y, y, y) for x, y in points], [title], x_title, title)


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


def _point(name: str, row: ShapeRow, field: str, metric: str, factor: float) -> PlotPoint | None:
    estimate, x = row.mean(metric), getattr(row.shape, field)
    if estimate is None or x is None:
        return None
    low = estimate.value if estimate.low is None else max(0.0, estimate.low)
    high = estimate.value if estimate.high is None else estimate.high
    return PlotPoint(name, x, factor * estimate.value, factor * low, factor * high, row.marked)

"""Points with their intervals -> a chart whose axis says what is drawn, and that every reader of XML takes."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upright.evidence.report.plots import (
    HEIGHT,
    WIDTH,
    PlotCell,
    PlotPoint,
    bar_plot,
    field_plot,
    in_plain_colours,
    line_plot,
    tick_labels,
    tick_values,
)

AMOUNTS = st.floats(min_value=1e-6, max_value=1e9, allow_nan=False)
HOSTILE = '"><script>alert(1)</script>\x1b[2J\x00'


@pytest.mark.parametrize("high", [2.5, 40.0], ids=["sure", "unsure"])
def test_the_labels_of_an_axis_differ(high: float) -> None:
    """An interval that is cut at the edge does not decide how the labels are written."""
    points = [PlotPoint("a", x, x + 0.6, 0.5, high) for x in (1, 2)]
    drawn = line_plot(points, ["a"], "requests at once", "Time per output token, ms")
    labels = re.findall(r'text-anchor="end"[^>]*>([\d.,]+)</text>', drawn)
    assert 4 <= len(labels) == len(set(labels))
    assert max(map(float, labels)) < 5, "the curve keeps its shape"


@given(AMOUNTS)
def test_ticks_are_few_distinct_and_reach_the_top(top: float) -> None:
    ticks = tick_values(top)
    assert 4 <= len(ticks) <= 8
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-6)
    assert len(set(tick_labels(ticks))) == len(ticks)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=20), st.booleans())
def test_every_point_lies_inside_the_picture(places: list[tuple[float, float, float]], marked: bool) -> None:
    points = [PlotPoint("a", x, y, y / 2, y + more, marked) for x, y, more in places]
    drawn = ElementTree.fromstring(line_plot(points, ["a"], "x", "y"))
    circles = drawn.findall("circle")
    assert len(circles) == len(points)
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= WIDTH
        assert 0 <= float(circle.attrib["cy"]) <= HEIGHT
        assert (circle.attrib["fill"] == "var(--page)") is marked


def test_figures_that_are_none_are_left_out() -> None:
    points = [PlotPoint("a", 1, math.nan, 0, 1), PlotPoint("a", 2, 5, 5, math.inf), PlotPoint("a", 3, 5, 5, 5)]
    assert line_plot(points, ["a"], "x", "y").count("<circle") == 1
    assert "nothing here can be drawn" in line_plot(points[:2], ["a"], "x", "y")


def test_names_from_elsewhere_stay_text() -> None:
    pictures = (
        line_plot([PlotPoint(HOSTILE, 1, 1, 1, 1)], [HOSTILE, "b"], HOSTILE, HOSTILE),
        bar_plot([(HOSTILE, HOSTILE, 1.0), ("with", HOSTILE, 0.0)], HOSTILE),
        field_plot([PlotCell(0, 0, 1.0, HOSTILE)], [HOSTILE], [HOSTILE], (HOSTILE, HOSTILE, HOSTILE)),
    )
    for picture in pictures:
        elements = list(ElementTree.fromstring(picture).iter())
        assert {element.tag for element in elements} <= {"svg", "text", "circle", "line", "polyline", "rect"}
        assert "\x1b" not in picture


def test_a_drawing_of_its_own_needs_no_page() -> None:
    picture = in_plain_colours(bar_plot([("planned", "weights", 3.0), ("measured", "weights", 4.0)], "MiB"))
    assert "var(" not in picture
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"

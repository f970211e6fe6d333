"""Points with their intervals -> a chart whose axis says what is drawn."""

from __future__ import annotations

import re

import pytest

from upright.reporting.charts import _curve, _svg, available


@pytest.mark.skipif(not available(), reason="the extra [report] is not installed")
@pytest.mark.parametrize("high", [2.5, 40.0], ids=["sure", "unsure"])
def test_the_labels_of_an_axis_differ(high: float) -> None:
    """An interval that is cut at the edge does not decide how the labels are written."""
    points = [{"series": "a", "x": x, "y": x + 0.6, "low": 0.5, "high": high, "marked": False} for x in (1, 2)]
    drawn = _svg(_curve(points, ["a"], "requests at once", "Time per output token, ms"))
    labels = [text for text in re.findall(r">([\d.,]+)</text>", drawn) if "." in text or text == "0"]
    assert len(labels) >= 4
    assert len(labels) == len(set(labels))

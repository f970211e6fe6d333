"""Values are counted as JSON counts them, and nothing within the bounds is refused."""

from __future__ import annotations

import json
import time

import pytest

from upright.base import bounds
from upright.base.bounds.bounded_json import MOST_VALUES, parse_json, values_in


def test_what_stands_in_a_string_is_no_value():
    """An answer of commas is evidence too, and must be read again."""
    text = json.dumps({"answer": ",[{" * 600_000, "rest": ['"', "\\", '\\"', ",["]})
    assert parse_json(text) == parse_json(text.encode()) == bounds.parse_peer_json(text) == json.loads(text)


@pytest.mark.parametrize("unit", ["[],", "{},", '{"a":1},', "0,", '"",'])
def test_more_values_than_a_million_are_refused(unit: str):
    text = f"[{unit * (MOST_VALUES + 1)}0]"
    with pytest.raises(ValueError, match="more than 1,000,000 values"):
        parse_json(text)
    with pytest.raises(bounds.ExceededError, match="more than 1,000,000 values"):
        bounds.parse_peer_json(text)


@pytest.mark.parametrize("text", ['"' * 4_000_000, '"' + '\\"' * 2_000_000, '[,"' * 1_500_000, '"\\' * 2_000_000])
def test_counting_takes_one_look_at_each_letter(text: str):
    began = time.monotonic()
    values_in(text + ",[" * MOST_VALUES, MOST_VALUES)
    assert time.monotonic() - began < 10

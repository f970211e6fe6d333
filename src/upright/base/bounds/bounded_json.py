"""JSON parsed with limits on length, depth and the number of values."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from upright.base.bounds.errors import ExceededError

MOST_VALUES = 1_000_000
"""Of one JSON text: each takes up to a hundred bytes of memory, and three bytes of text."""
DEEPEST = 100
"""Levels of nesting. Whoever walks over values calls itself twice a level, and Python ends that at a thousand calls."""
MOST_TEXT_BYTES = 64_000_000
TOO_LONG = f"it is longer than {MOST_TEXT_BYTES // 1_000_000} MB"
_LONGEST_NUMBER = 100
"""Digits of a whole number that is one: what is longer becomes a float before anything computes with it."""
_VALUE = re.compile(r'(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+")*+(?:[,\[{]|".*|\Z)', re.DOTALL)
"""Up to the mark before a value; a string without an end is taken whole, so that no letter is looked at twice."""


def parse_peer_json(text: bytes | str, most_values: int = MOST_VALUES) -> Any:
    """JSON as Python has it; bytes that are no UTF-8 are replaced, for a guard to see. ValueError if it is no JSON."""
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    if values_in(text, most_values) > most_values:
        raise ExceededError(f"put more than {most_values:,} values into its JSON")
    try:
        content = _DECODER.decode(text)
    except RecursionError:
        raise ExceededError("nested its JSON too deeply") from None
    if _is_deep(text, content):
        raise ExceededError("nested its JSON too deeply")
    return content


def parse_json(text: bytes | str, most_values: int = MOST_VALUES) -> Any:
    """JSON of a file, a command or an answer, as `json.loads` has it; ValueError too if it is too long, holds too many
    values or is nested too deeply."""
    if len(text) > MOST_TEXT_BYTES:
        raise ValueError(TOO_LONG)
    text = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
    if values_in(text, most_values) > most_values:
        raise ValueError(f"it holds more than {most_values:,} values")
    try:
        content = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _is_deep(text, content):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return content


def values_in(text: str, most: int) -> int:
    """How many values JSON would make of it, counted until there are more than that. What is in strings is none."""
    marks = text.count(",") + text.count("[") + text.count("{")
    return marks if marks <= most else sum(1 for _ in islice(_VALUE.finditer(text), most + 1))


def checked_count(value: Any) -> int | None:
    """A number of things, as anybody could have counted; None for whatever else stands there."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _is_deep(text: str, content: Any) -> bool:
    return text.count("[") + text.count("{") > DEEPEST and deeper(content, DEEPEST)


def deeper(content: Any, levels: int) -> bool:
    """Whether lists and mappings are nested beyond so many levels. It calls nothing of itself, so any depth is safe."""
    level = [content]
    for _ in range(levels):
        inner: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                inner.extend(node.values())
            elif isinstance(node, list):
                inner.extend(node)
        if not inner:
            return False
        level = inner
    return any(isinstance(node, dict | list) for node in level)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= _LONGEST_NUMBER else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)

"""JSON of a peer -> values of bounded number, depth and size."""

from __future__ import annotations

import json
from typing import Any

from upright.bounds.errors import ExceededError

MOST_VALUES = 1_000_000
"""Of one JSON text: each takes up to a hundred bytes of memory, and three bytes of text."""
_LONGEST_NUMBER = 19


def parsed(text: bytes | str, most_values: int = MOST_VALUES) -> Any:
    """JSON as Python has it; bytes that are no UTF-8 are replaced, for a guard to see. ValueError if it is no JSON."""
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    if text.count(",") + text.count("[") + text.count("{") > most_values:
        raise ExceededError(f"put more than {most_values:,} values into its JSON")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ExceededError("nested its JSON too deeply") from None


def count(value: Any) -> int | None:
    """A number of things, as anybody could have counted; None for whatever else stands there."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)

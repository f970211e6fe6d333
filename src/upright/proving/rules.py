"""An answer's text + what was expected -> why it is wrong, or None. Every rule can fail."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from upright.errors import UsageError

Rule = Callable[[str, Any], str | None]

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_SHAPES: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int, float), "flag": (bool,), "list": (list,)}


def judge(rule: str, text: str, expect: Any) -> str | None:
    if rule not in RULES:
        raise UsageError(f"no rule named {rule}", hint=f"rules: {', '.join(RULES)}")
    return RULES[rule](text, expect)


def says(text: str, expect: Any) -> str | None:
    """Every expected phrase occurs, whatever the case."""
    phrases = expect if isinstance(expect, list) else [expect]
    missing = [phrase for phrase in phrases if str(phrase).lower() not in text.lower()]
    return f"does not say {missing[0]!r}" if missing else None


def number(text: str, expect: Any) -> str | None:
    """The last number of the answer is the expected one."""
    found = _NUMBER.findall(text)
    if not found:
        return "no number in the answer"
    last = float(found[-1].replace(",", ""))
    return None if last == float(expect) else f"answered {found[-1]}, not {expect}"


def json_object(text: str, expect: Any) -> str | None:
    """The whole answer is one JSON object with exactly these keys, each of its shape; a code fence is allowed."""
    fenced = _FENCE.match(text)
    try:
        data = json.loads(fenced[1] if fenced else text)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(data, dict):
        return f"a JSON {type(data).__name__}, not an object"
    if set(data) != set(expect):
        return f"keys are {sorted(data)}, not {sorted(expect)}"
    for key, shape in expect.items():
        value = data[key]
        if not isinstance(value, _SHAPES[shape]) or (shape == "number" and isinstance(value, bool)):
            return f"{key} is {value!r}, not a {shape}"
    return None


RULES: dict[str, Rule] = {"says": says, "number": number, "json": json_object}

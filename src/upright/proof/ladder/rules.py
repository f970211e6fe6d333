"""Rules that judge an answer's text. Every rule can fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import UsageError
from upright.proof.ladder.sandbox import run_assertions
from upright.proof.ladder.schemas import misfit

Rule = Callable[[str, Any], str | None]

_QUOTE = 80
"""Characters of an answer that a reason repeats."""
QUICK_RULES = ("says", "number", "json", "schema")
"""Rules that take no time; code would have to be run."""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_CODE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_SHAPES: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int, float), "flag": (bool,), "list": (list,)}


def judge(rule: str, text: str, expect: Any) -> str | None:
    if rule not in RULES:
        raise UsageError(f"no rule named {rule}", hint=f"rules: {', '.join(RULES)}")
    return RULES[rule](text, expect)


def says(text: str, expect: Any) -> str | None:
    """Every expected phrase occurs, whatever the case."""
    phrases = expect if isinstance(expect, list) else [expect]
    missing = [phrase for phrase in phrases if str(phrase).lower() not in text.lower()]
    return f"does not say {missing[0]!r}: {quoted(text)}" if missing else None


def number(text: str, expect: Any) -> str | None:
    """The last number of the answer is the expected one."""
    numbers = _NUMBER.findall(text)
    if not numbers:
        return f"no number in {quoted(text)}"
    last = float(numbers[-1].replace(",", ""))
    return None if last == float(expect) else f"said {quoted(text)}, not {expect}"


def json_object(text: str, expect: Any) -> str | None:
    """The whole answer is one JSON object with exactly these keys, each of its shape; a code fence is allowed."""
    payload, problem = _parsed(text)
    if problem:
        return problem
    if not isinstance(payload, dict):
        return f"a JSON {type(payload).__name__}, not an object"
    if set(payload) != set(expect):
        return f"keys are {sorted(payload)}, not {sorted(expect)}"
    for key, shape in expect.items():
        field_value = payload[key]
        if not isinstance(field_value, _SHAPES[shape]) or (shape == "number" and isinstance(field_value, bool)):
            return f"{key} is {field_value!r}, not a {shape}"
    return None


def schema(text: str, expect: Any) -> str | None:
    """The whole answer is JSON that fits the schema."""
    payload, problem = _parsed(text)
    return problem or misfit(payload, expect)


def code(text: str, expect: Any) -> str | None:
    """The expected assertions hold of the functions in the answer's code block, which runs in the sandbox."""
    outcome = run_assertions({"answer.py": code_block(text)}, expect, about="answer")
    return None if outcome.ok else f"its code fails: {outcome.reason}"


def python(text: str, expect: Any) -> str | None:
    """Python that parses, with at least so many classes. An answer that was cut loses its last, unfinished lines."""
    lines = code_block(text).splitlines()
    for dropped in range(min(len(lines), 200)):
        try:
            tree = ast.parse("\n".join(lines[: len(lines) - dropped]))
        except (SyntaxError, ValueError):
            continue
        classes = sum(isinstance(node, ast.ClassDef) for node in tree.body)
        return None if classes >= expect["classes"] else f"{classes} classes, not {expect['classes']}"
    return "not Python: it does not parse"


def counts(text: str, expect: Any) -> str | None:
    """Whole numbers in unbroken order, from the first to the last that is expected; one that was cut may end early."""
    numbers = [int(word) for word in re.findall(r"\d+", text)]
    if expect.get("cut"):
        numbers = numbers[:-1]  # the last one may be half a number
    first, last = expect["from"], expect["to"]
    for position, counted in enumerate(numbers):
        if counted != first + position:
            return f"{counted} where {first + position} belongs"
    if numbers and expect.get("cut"):
        return None
    return None if numbers and numbers[-1] == last else f"ends at {numbers[-1] if numbers else 'nothing'}, not {last}"


def code_block(text: str) -> str:
    """The first fenced block, also one that was cut; the text itself if there is none."""
    fence = _CODE.search(text)
    return fence[1] if fence else text


def quoted(text: str) -> str:
    """What was said, in a few words: how it begins and how it ends."""
    said = " ".join(text.split())
    return repr(said if len(said) <= _QUOTE else f"{said[: _QUOTE // 2].rstrip()} … {said[-_QUOTE // 2 :].lstrip()}")


def _parsed(text: str) -> tuple[Any, str | None]:
    fenced = _FENCE.match(text)
    try:
        return parse_json(fenced[1] if fenced else text), None
    except ValueError as error:
        return None, f"not JSON: {quoted(text)} ({error})"


RULES: dict[str, Rule] = {
    "says": says, "number": number, "json": json_object, "schema": schema, "code": code, "python": python,
    "counts": counts,
}  # fmt: skip

"""Judges tool calls: names, schemas, arguments."""

from __future__ import annotations

import json
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.facts.records.evidence import Verdict
from upright.proof.ladder.observing import Judgement
from upright.proof.ladder.prompts import Dialogue, ExpectedCall, PromptSet
from upright.proof.ladder.rules import says
from upright.proof.ladder.schemas import misfit
from upright.serving.endpoint.client import Answer


def judge_calls(
    answer: Answer, dialogue: Dialogue, expected: tuple[ExpectedCall, ...], prompts: PromptSet
) -> Judgement:
    """The calls that should come, or the text that should."""
    calls = answer.tool_calls
    if len(calls) != len(expected):
        names = ", ".join(str(call["function"].get("name")) for call in calls) or "no call"
        belongs = ", ".join(expected_call.name for expected_call in expected) or "a text"
        return _whose(dialogue, bool(calls)), f"{names}, where {belongs} belongs"
    for call, wanted in zip(calls, expected, strict=True):
        if wrong := _call_wrong(call, wanted, dialogue, prompts):
            return "wrong", wrong
    if expected and answer.finish_reason not in ("tool_calls", "stop"):
        return "failed", f"finish_reason is {answer.finish_reason}"
    if not expected and dialogue.says is not None and (wrong := says(answer.text, dialogue.says)):
        return "wrong", wrong
    call_texts = [
        f"{expected_call.name}({json.dumps(expected_call.arguments, ensure_ascii=False)})" for expected_call in expected
    ]
    return "passed", "; ".join(call_texts)[:160] or f"says {dialogue.says}"


def _whose(dialogue: Dialogue, called: bool) -> Verdict:
    """To call when a call is required, and not to when none is allowed, is the engine's to see to."""
    return "failed" if dialogue.choice == ("none" if called else "required") else "wrong"


def _call_wrong(call: dict[str, Any], wanted: ExpectedCall, dialogue: Dialogue, prompts: PromptSet) -> str | None:
    name, arguments = call["function"].get("name"), arguments_of(call)
    if name != wanted.name:
        return f"calls {name}, not {wanted.name}"
    if wrong := misfit(arguments, prompts.tools[wanted.name]["parameters"]):
        return f"arguments of {name} do not fit its schema: {wrong}"
    if dialogue.any_arguments:
        return None
    for key, expected in wanted.arguments.items():
        if _plain(arguments.get(key)) != _plain(expected):
            return f"{key} is {arguments.get(key)!r}, not {expected!r}"
    return None


def _plain(value: Any) -> Any:
    """As people compare: without case and outer spaces, at any depth."""
    if isinstance(value, str):
        return value.strip().casefold()
    if isinstance(value, list):
        return [_plain(nested) for nested in value]
    if isinstance(value, dict):
        return {name: _plain(nested) for name, nested in value.items()}
    return value


def arguments_of(call: dict[str, Any]) -> Any:
    raw = call["function"].get("arguments")
    return raw if isinstance(raw, dict) else parse_json(raw)  # the guards have seen that it is JSON

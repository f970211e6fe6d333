"""An Answer -> complaints, one for each guard that speaks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from upright.base.bounds.values import decoded
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards.texts import drift, flood, loop

GUARDS: dict[str, str] = {
    "cut": "no finish_reason, an error inside the stream, a stream without its end, or a piece that is no JSON",
    "usage": "tokens were not counted",
    "empty": "no text and no tool call",
    "reasoning-only": "everything in the reasoning, nothing in the answer",
    "utf-8": "bytes that are no UTF-8",
    "flood": "one character over and over",
    "loop": "the same words over and over",
    "drift": "another writing system than was asked for",
    "leak": "the template's own tokens in the text",
    "logprobs": "log probabilities asked for and absent, NaN, or above zero",
    "arguments": "a tool call whose arguments are cut or no JSON object",
    "count": "prompt tokens that differ from the tokenizer's count",
}
"""Every guard, and what it looks for."""

_LEAK = re.compile(r"<\|(?:im_|tool_call|end_of_|start_header|endoftext|eot)[a-z_]*\|>|</?tool_call>|<｜[^｜]{1,40}｜>")


@dataclass(frozen=True)
class Complaint:
    """What one guard says."""

    guard: str
    what: str


def complaint(answer: Answer) -> str | None:
    """The first thing wrong with the answer's form, or None."""
    return next((fault.what for fault in complaints(answer)), None)


def complaints(answer: Answer, *, scripts: tuple[str, ...] | None = None) -> Iterator[Complaint]:
    """Everything wrong with the answer's form. `scripts` are the writing systems that were asked for."""
    yield from _form(answer)
    for where, text in (("", answer.text), (" in the reasoning", answer.reasoning)):
        for fault in _text(text, scripts, cut=answer.finish_reason == "length"):
            yield Complaint(fault.guard, fault.what + where)
    if answer.request.get("logprobs"):
        yield from _logprobs(answer.logprobs)
    for call in answer.tool_calls:
        yield from _arguments(call)


def _form(answer: Answer) -> Iterator[Complaint]:
    stream = answer.response.get("stream")
    if isinstance(broken := answer.response.get("broken_chunk"), str):
        yield Complaint("cut", f"a piece of the stream is no JSON: {broken[:60]!r}")
    if error := answer.response.get("error"):
        yield Complaint("cut", f"an error inside the stream: {_words_of(error)[:120]}")
    elif answer.finish_reason is None:
        yield Complaint("cut", "no finish_reason: the answer was cut")
    elif isinstance(stream, dict) and not stream.get("done"):
        yield Complaint("cut", "the stream ended without [DONE]")
    if not answer.completion_tokens or not answer.prompt_tokens:
        yield Complaint("usage", "no usage: tokens were not counted")
    if not answer.text.strip() and not answer.tool_calls:
        if answer.reasoning.strip():
            yield Complaint("reasoning-only", "empty answer: all of it is in the reasoning")
        else:
            yield Complaint("empty", "empty answer")
    if answer.finish_reason == "tool_calls" and not answer.tool_calls:
        yield Complaint("arguments", "finish_reason is tool_calls, and there is no call")


def _words_of(error: object) -> str:
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


def _text(text: str, scripts: tuple[str, ...] | None, *, cut: bool) -> Iterator[Complaint]:
    if "\ufffd" in text:
        yield Complaint("utf-8", "invalid UTF-8 in the answer")
    if symptom := flood(text):
        yield Complaint("flood", symptom)
    if symptom := loop(text, cut=cut):
        yield Complaint("loop", symptom)
    if scripts is not None and (symptom := drift(text, scripts)):
        yield Complaint("drift", symptom)
    if leak := _LEAK.search(text):
        yield Complaint("leak", f"{leak[0]} in the text: the parser did not take it")


def _logprobs(entries: list[dict[str, Any]] | None) -> Iterator[Complaint]:
    if not entries:
        yield Complaint("logprobs", "logprobs were asked for, and none came")
        return
    for position, entry in enumerate(entries):
        logprob = entry.get("logprob")
        if not isinstance(logprob, int | float) or math.isnan(logprob):
            yield Complaint("logprobs", f"the logprob of token {position + 1} is {logprob}")
            return
        if logprob > 1e-3:
            yield Complaint("logprobs", f"the logprob of token {position + 1} is {logprob}, above zero")
            return


def _arguments(call: dict[str, Any]) -> Iterator[Complaint]:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    name, arguments = str(function.get("name") or ""), function.get("arguments")
    if not name:
        yield Complaint("arguments", "a tool call without a name")
        return
    try:
        parsed = arguments if isinstance(arguments, dict) else decoded(arguments or "")
    except (TypeError, ValueError):
        yield Complaint("arguments", f"arguments of {name} are no JSON: {str(arguments)[-60:]!r}")
        return
    if not isinstance(parsed, dict):
        yield Complaint("arguments", f"arguments of {name} are no JSON object: {str(arguments)[:60]!r}")

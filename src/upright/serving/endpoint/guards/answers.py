"""The guards: what each of them finds wrong with an answer."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.serving.endpoint.client import Answer

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
        parsed = arguments if isinstance(arguments, dict) else parse_json(arguments or "")
    except (TypeError, ValueError):
        yield Complaint("arguments", f"arguments of {name} are no JSON: {str(arguments)[-60:]!r}")
        return
    if not isinstance(parsed, dict):
        yield Complaint("arguments", f"arguments of {name} are no JSON object: {str(arguments)[:60]!r}")


# Rulers of prose and code (-----, =====, ....) are allowed to be longer than anything else; so are runs of letters:
# base64 of zero bytes is all A.
_FLOOD = re.compile(r"([^\s\w\-=_*#~.+/|─━═·•█░▒▓])\1{23,}|(\S)\2{199,}")
_ANCHOR_CHARACTERS = 12
_ANCHOR_STRIDE = 16
_LONGEST_PERIOD = 4_000
_WINDOW_LETTERS = 400


def flood(text: str) -> str | None:
    flood_match = _FLOOD.search(text)
    return f"a flood of {flood_match[0][0]!r}, {len(flood_match[0])} times" if flood_match else None


def loop(text: str, *, cut: bool = False) -> str | None:
    """A unit of 2 to 4,000 characters, over and over. `cut`: the answer ended for want of room, as loops do."""
    start = 0
    while start + 2 * _ANCHOR_CHARACTERS <= len(text):
        anchor = text[start : start + _ANCHOR_CHARACTERS]
        again = text.find(anchor, start + 1, start + _LONGEST_PERIOD + _ANCHOR_CHARACTERS)
        if again > 0:
            unit = text[start:again]
            end = _run_end(text, start, again - start)
            length = end - _run_begin(text, start, again - start)
            if _is_loop(unit, length, at_end=cut and len(text) - end < len(unit)):
                return f"a loop of {_shown(unit)!r}, {length // len(unit)} times"
            if end - start > 2 * len(unit):
                start = max(start + _ANCHOR_STRIDE, end - len(unit))
                continue
        start += _ANCHOR_STRIDE
    return None


def drift(text: str, scripts: tuple[str, ...]) -> str | None:
    """Letters of a writing system that nobody asked for: a tenth of any stretch of 400 letters, and at least eight."""
    if text.isascii():
        return None
    letters = [_script(letter) for letter in text if letter.isalpha()]
    allowed = {*scripts, "Greek", "Common"}  # Greek letters are mathematics
    for begin in range(0, len(letters), _WINDOW_LETTERS):
        window = letters[begin : begin + _WINDOW_LETTERS]
        foreign = Counter(script for script in window if script not in allowed)
        if foreign and sum(foreign.values()) >= max(8, len(window) // 10):
            script, count = foreign.most_common(1)[0]
            return f"{count} {script} letters among {len(window)}, where {' and '.join(scripts)} was expected"
    return None


def _run_end(text: str, start: int, period: int) -> int:
    """Where the repetition that begins at `start` ends: the last place that equals what is one period before it."""
    end, step = start + period, period
    while text.startswith(text[end - period : end - period + step], end) and end + step <= len(text):
        end += step
        step = min(2 * step, end - start)
    while end < len(text) and text[end] == text[end - period]:
        end += 1
    return end


def _run_begin(text: str, start: int, period: int) -> int:
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return start


def _is_loop(unit: str, length: int, *, at_end: bool) -> bool:
    times = length / len(unit)
    if len(set(unit)) == 1:
        return False  # a ruler, or a flood
    if any(character.isalpha() for character in unit):
        if at_end:
            return times >= 4 and length >= 96
        return times >= 8 and length >= (96 if len(unit) < 80 else 480)
    # Numbers and signs: zero matrices, rulers of tables, hex dumps of nothing.
    return times >= 40 and length >= (400 if at_end else 2_000)


def _shown(unit: str) -> str:
    return unit if len(unit) <= 60 else f"{unit[:57]}..."


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    if letter.isascii():
        return "Latin"
    name = unicodedata.name(letter, "")
    word = name.partition(" ")[0]
    known = {"CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HANGUL": "Hangul", "LATIN": "Latin", "": "unknown"}
    if word in ("MODIFIER", "MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "FULLWIDTH", "FEMININE", "MASCULINE", "MICRO"):
        return "Common"
    return known.get(word, word.capitalize())

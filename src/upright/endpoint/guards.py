"""An Answer -> what is broken about it, whatever was asked.

The field's worst failures are silent: HTTP 200, and `!!!!!!!!` inside. Every rung and every benchmark passes here.
"""

from __future__ import annotations

import re

from upright.endpoint.client import Answer

# Rulers and tables of prose and code (-----, =====, ....) are allowed to be longer than anything else.
_FLOOD = re.compile(r"([^\s\-=_*#~.─])\1{23,}|(\S)\2{199,}")
_LOOP = re.compile(r"(.{4,80}?)\1{7,}", re.DOTALL)


def complaint(answer: Answer) -> str | None:
    """The first thing wrong with the answer's form, or None. Says nothing about whether it is right."""
    if answer.finish_reason is None:
        return "no finish_reason: the answer was cut"
    if not answer.usage.get("completion_tokens"):
        return "no usage: tokens were not counted"
    if not answer.text.strip():
        return "empty answer"
    if "\ufffd" in answer.text:
        return "invalid UTF-8 in the answer"
    if flood := _FLOOD.search(answer.text):
        return f"a flood of {flood[0][0]!r}"
    for loop in _LOOP.finditer(answer.text):
        if len(set(loop[1])) > 1:  # one character over and over is a ruler or a flood
            return f"a loop of {loop[1]!r}"
    return None

"""Compares the server's count of prompt tokens with a second count.

The second count is the engine's own tokenizer, asked at its own address; where there is none, three requests whose
prompts grow by the same text must grow by the same number of tokens.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from upright.base.errors import EndpointError
from upright.serving.endpoint.client import Endpoint

_TURN_MARK = re.compile(r"<[|｜][^<>\s]{1,40}[|｜]>|</?(?:start|end)_of_turn>|\[/?INST\]")
"""How families mark a turn with a token of its own."""
_MOST_MARKS = 16


def tokenizer_count(
    endpoint: Endpoint, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **options: Any
) -> int | None:
    """The prompt's tokens by the engine's own tokenizer and template; None if it has no such address."""
    body = {"messages": messages, **({"tools": tools} if tools else {}), **options}
    with suppress(EndpointError):
        counted = endpoint.post("/tokenize", {"model": endpoint.model, **body}).get("count")
        if isinstance(counted, int):  # vLLM
            return counted
    try:  # llama.cpp: its template first, then its tokenizer
        return _tokens(endpoint, _rendered(endpoint, body), add_special=True)
    except (EndpointError, KeyError, TypeError):
        return None


def foreign_template(endpoint: Endpoint) -> str | None:
    """What shows that the chat template is not this model's: it drops what was said, or it marks turns with what is no
    token of the vocabulary, and never with the one by which the model ends its own. Empty if nothing shows it; None if
    the engine does not show what its template makes, as llama.cpp does, or the model ends its turns otherwise."""
    turns = [{"role": role, "content": f"{role} speaks."} for role in ("user", "assistant", "user")]
    try:
        prompt, end = _rendered(endpoint, {"messages": turns}), str(endpoint.json("/props").get("eos_token") or "")
        if "user speaks." not in prompt:
            return f"the chat template drops what is said: it makes {prompt[:60]!r} of a conversation"
        if not _TURN_MARK.fullmatch(end):
            return None
        pieces = {mark: _tokens(endpoint, mark) for mark in dict.fromkeys(_TURN_MARK.findall(prompt)[:_MOST_MARKS])}
        plain = _tokens(endpoint, prompt) == _tokens(endpoint, prompt, parse_special=False)
    except (EndpointError, KeyError, TypeError):
        return None
    odd = next((mark for mark, count in pieces.items() if count > 1), None)
    if end in prompt or not (plain or odd):
        return ""
    written = f"it writes {odd}, {pieces[odd]} pieces to this vocabulary" if odd else "it writes no mark of a turn"
    return f"the chat template is another family's: {written}; the model ends its turns with {end}"


def _rendered(endpoint: Endpoint, body: dict[str, Any]) -> str:
    return str(endpoint.post("/apply-template", body)["prompt"])


def _tokens(endpoint: Endpoint, text: str, *, add_special: bool = False, parse_special: bool = True) -> int:
    asked = {"content": text, "add_special": add_special, "parse_special": parse_special}
    return len(endpoint.post("/tokenize", asked)["tokens"])


def count_mismatch(counted: int, expected: int, *, slack_tokens: int = 2) -> str | None:
    """A beginning-of-text token more or less is no lie."""
    if abs(counted - expected) <= slack_tokens:
        return None
    return f"the server counted {counted:,} prompt tokens, its tokenizer {expected:,}"


def uneven_growth(counts: tuple[int, int, int], *, slack_tokens: int = 4) -> str | None:
    """Counts of prompts with one, two and three times the same text."""
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    if first > 0 and abs(first - second) <= slack_tokens:
        return None
    return f"the same text was counted as {first:,} and then as {second:,} tokens"

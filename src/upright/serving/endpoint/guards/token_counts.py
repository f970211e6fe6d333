"""Compares the server's count of prompt tokens with a second count.

The second count is the engine's own tokenizer, asked at its own address; where there is none, three requests whose
prompts grow by the same text must grow by the same number of tokens.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from upright.base.errors import EndpointError
from upright.serving.endpoint.client import Endpoint


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
        prompt = endpoint.post("/apply-template", body).get("prompt")
        tokens = endpoint.post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})
        return len(tokens["tokens"])
    except (EndpointError, KeyError, TypeError):
        return None


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

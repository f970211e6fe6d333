"""Tokens that were asked for -> how long an answer may take, and how many bytes it may have."""

from __future__ import annotations

_UNASKED_TOKENS = 4_096
"""For an answer whose length nobody limited."""
_SLOWEST_TOKEN_SECONDS = 5.0
"""Of a stream that is slow and still worth waiting for."""
_MOST_BYTES_A_TOKEN = 4_096
"""A chunk of a stream with twenty candidates for its token."""
_ENVELOPE_BYTES = 1_000_000


def longest_seconds(patience_seconds: float, tokens: int | None) -> float:
    """Of a whole answer, whose every piece is waited for with that patience."""
    return patience_seconds + (_UNASKED_TOKENS if tokens is None else tokens) * _SLOWEST_TOKEN_SECONDS


def most_bytes(tokens: int | None) -> int:
    return _ENVELOPE_BYTES + (_UNASKED_TOKENS if tokens is None else tokens) * _MOST_BYTES_A_TOKEN

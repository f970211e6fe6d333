"""The answer to `upright` alone -> lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from upright.base.units import format_size, format_tokens
from upright.engines import engine_named


def first_look_page(seen: dict[str, Any], commands: Sequence[tuple[str, str]], width: int) -> str:
    return "\n".join(_lines(seen, commands, width))


def _lines(seen: dict[str, Any], commands: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    yield from textwrap.wrap(seen["machine"], width)
    yield ""
    for word, offer in seen["three"].items():
        yield from textwrap.wrap(
            " · ".join(_parts(offer)), width, initial_indent=f"{word:<7}", subsequent_indent=" " * 7
        )
    if not seen["three"]:
        yield "No model of the catalogue fits this machine."
    for one in seen["running"]:
        yield f"{one['state']:<7}{one['name']} on {engine_named(one['engine']).title}"
    for sentence in seen["changed"]:
        yield from textwrap.wrap(sentence, width, initial_indent="new    ", subsequent_indent=" " * 7)
    yield ""
    longest = max(len(words) for words, _ in commands)
    lines = [f"  upright {words:<{longest}}  {why}" for words, why in commands]
    if any(len(line) > width for line in lines):
        lines = [line for words, why in commands for line in (f"  upright {words}", f"      {why}")]
    yield from lines
    yield ""
    yield "upright --help lists every verb."


def _parts(offer: dict[str, Any]) -> Iterator[str]:
    yield offer["artifact"].rpartition("/")[2]
    yield f"{format_tokens(offer['context_tokens'])} tokens x {offer['users_at_context']}"
    yield f"{_rate(offer['decode'])} tok/s" if offer["decode"] else "speed not known"
    if offer.get("first_answer"):
        yield f"20k read in {offer['first_answer']:.0f} s"
    yield format_size(offer["download_bytes"])
    yield engine_named(offer["engine"]).title


def _rate(rate: dict[str, float | None]) -> str:
    low, best, high = rate["low"] or 0.0, rate["best"], rate["high"] or 0.0
    return f"{low:.0f}-{high:.0f}" if best is None else f"{best:.0f} ({low:.0f}-{high:.0f})"

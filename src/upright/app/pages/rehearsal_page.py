"""Rehearsal -> a page: what the engine took, beside what was planned; what is proved now, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from upright.base.terminal.safe_output import style
from upright.base.units import format_duration, format_memory, format_size, format_tokens
from upright.facts.records.rehearsal import Rehearsal


def page(found: Rehearsal, width: int) -> str:
    return "\n".join(_lines(found, width))


def _lines(found: Rehearsal, width: int) -> Iterator[str]:
    verdict = style("rehearsed", fg="green", bold=True) if found.passed else style("fell", fg="red", bold=True)
    yield f"{found.model} on {found.engine} {found.engine_version or ''}: {verdict}"
    yield style(f"by {' and '.join(found.ways)}, in {format_duration(found.seconds)}", dim=True)
    yield ""
    yield f"{'weights':<10}{format_size(found.weights_bytes)}, none of which were needed"
    read, disk = format_size(found.fetched_bytes), format_size(found.written_bytes)
    yield f"{'read':<10}{read} of headers, configuration and tokenizer; {disk} of disk"
    if not found.passed:
        yield ""
        yield from _wrapped(found.code or "unknown", found.said or "it ended without a word", width)
        return
    yield f"{'context':<10}{format_tokens(found.context_tokens)} tokens a user"
    if found.kv_tokens:
        planned = f" (planned: {format_tokens(found.planned_kv_tokens)})" if found.planned_kv_tokens else ""
        yield f"{'cache':<10}{format_tokens(found.kv_tokens)} tokens, says the engine{planned}"
    if found.shares:
        yield ""
        yield style(f"{'device':<8}{'':<12}{'engine':>12}{'plan':>12}{'off by':>9}", dim=True)
    for share in found.shares:
        planned = format_memory(share.planned_bytes) if share.planned_bytes is not None else "-"
        off = _off(share.bytes, share.planned_bytes)
        yield f"{share.device:<8}{share.what:<12}{format_memory(share.bytes):>12}{planned:>12}{off:>9}"
    yield ""
    for sentence in found.proved:
        yield from _wrapped("proved", sentence, width)
    for sentence in found.not_proved:
        yield from _wrapped("not", sentence, width)


def _off(said: int, planned: int | None) -> str:
    if not planned:
        return ""
    share = said / planned - 1
    return f"{share:+.1%}" if abs(share) >= 0.0005 else "0.0%"


def _wrapped(label: str, text: str, width: int) -> Iterator[str]:
    indent = max(10, len(label) + 2)
    for number, line in enumerate(textwrap.wrap(text, width - indent, break_on_hyphens=False)):
        yield style(f"{label if not number else '':<{indent}}", dim=True) + line

"""Diagnosis -> a page for somebody who is tired: what happened, where it says so, what to change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from click import style

from upright.catalog.explaining.rows import remedy_words
from upright.catalog.loader import user_folder
from upright.records.diagnosis import Attempts, Diagnosis, Finding, Remedy, Sighting
from upright.units import duration

_LABEL = 8
_LONGEST_LINE = 400


def diagnosis_page(found: Diagnosis, width: int) -> str:
    return "\n".join(_lines(found, width)).rstrip()


def attempts_page(way: Attempts, width: int) -> str:
    """A line for each start, as one would tell it afterwards."""
    return "\n".join(_attempts(way, width))


def _lines(found: Diagnosis, width: int) -> Iterator[str]:
    cause = found.cause
    if cause is not None:
        yield f"{style(cause.code, fg='red', bold=True)}: {cause.title}"
    elif found.failed:
        yield style(f"{found.subject} failed, and no row of the catalogue knows why", fg="red", bold=True)
    else:
        yield style("nothing failed", fg="green", bold=True) + f" in {found.subject}"
    yield style(_read(found), dim=True)
    yield ""
    if cause is not None:
        yield from _cause(cause, width)
    elif found.failed:
        yield from _unknown(found, width)
    yield from _others(found, width)
    for note in found.notes:
        yield from _wrapped("note", note, width)


def _read(found: Diagnosis) -> str:
    engine = found.engine or "an unknown engine"
    earlier = f", the last of {found.starts} starts" if found.starts > 1 else ""
    lines = "1 line" if found.log_lines == 1 else f"{found.log_lines:,} lines"
    return f"{lines} of {engine}{earlier}"


def _cause(cause: Finding, width: int) -> Iterator[str]:
    yield from _wrapped("why", cause.cause, width)
    if cause.when:
        yield from _wrapped("when", cause.when, width)
    yield ""
    yield from _evidence(cause.seen, width)
    if cause.count > 1:
        ranks = f" by {', '.join(cause.ranks[:8])}" if len(cause.ranks) > 1 else ""
        yield from _wrapped("", f"said {cause.count:,} times{ranks}", width)
    yield ""
    for number, remedy in enumerate(cause.remedies):
        yield from _remedy("do" if not number else "or", remedy, width)
    yield ""
    for number, source in enumerate(cause.sources[:4]):
        yield style(f"{'sources' if not number else '':<{_LABEL}}", dim=True) + source


def _remedy(label: str, remedy: Remedy, width: int) -> Iterator[str]:
    yield from _wrapped(label, remedy_words(remedy), width)
    for command in remedy.commands:
        yield f"{'':<{_LABEL}}$ {command}"


def _unknown(found: Diagnosis, width: int) -> Iterator[str]:
    for piece in found.excerpt:
        yield from _evidence(piece, width)
    if found.row:
        yield ""
        yield "When you know why, this row tells it next time, in"
        yield f"{user_folder() / 'failures' / 'mine.yaml'}:"
        yield ""
        yield found.row.rstrip()


def _evidence(seen: Sighting, width: int) -> Iterator[str]:
    if seen.where == "log":
        label = f"line {seen.number:,}" if seen.number else "the last words"
        yield style(f"{label}{f', {seen.rank}' if seen.rank else ''}", dim=True)
    else:
        yield style(f"the {'kernel' if seen.where == 'kernel' else 'machine'} says", dim=True)
    text = seen.text if len(seen.text) <= _LONGEST_LINE else f"{seen.text[:_LONGEST_LINE]} …"
    for line in textwrap.wrap(text, width - 2, break_on_hyphens=False) or [""]:
        yield f"  {line}"


def _others(found: Diagnosis, width: int) -> Iterator[str]:
    others = found.findings[1:] if found.cause is not None else found.findings
    for number, each in enumerate(others):
        if not number:
            yield ""
        where = f" (line {each.seen.number:,})" if each.seen.number else ""
        yield from _wrapped("also" if not number else "", f"{each.code}: {each.title}{where}", width)


def _attempts(way: Attempts, width: int) -> Iterator[str]:
    yield style(f"{len(way.attempts)} attempt{'s' if len(way.attempts) != 1 else ''} of {way.name}", bold=True)
    for each in way.attempts:
        result = style("stands", fg="green") if each.result == "ready" else style(each.code or each.result, fg="red")
        yield f"{each.number:>3}  {each.engine:<13} {duration(each.seconds):>8}  {result}"
        if each.change is not None:
            yield from textwrap.wrap(
                remedy_words(each.change), width, initial_indent=" " * 5, subsequent_indent=" " * 5
            )
        if each.result != "ready" and each.code is None and each.said:
            yield from textwrap.wrap(each.said, width, initial_indent=" " * 5, subsequent_indent=" " * 5)
    if way.stopped:
        yield from textwrap.wrap(way.stopped, width)


def _wrapped(label: str, text: str, width: int) -> Iterator[str]:
    for number, line in enumerate(textwrap.wrap(text, width - _LABEL, break_on_hyphens=False)):
        yield style(f"{label if not number else '':<{_LABEL}}", dim=True) + line

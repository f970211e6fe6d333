"""Diagnosis -> a page for somebody who is tired: what happened, where it says so, what to change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from upright.base.terminal.safe_output import style
from upright.base.units import format_duration
from upright.engines import ENGINES
from upright.facts.catalog.explaining.rows import remedy_words
from upright.facts.catalog.loader import user_folder
from upright.facts.records.diagnosis import Attempts, Diagnosis, Finding, Remedy, Sighting

_LABEL = 8
_LONGEST_LINE = 400
_SHOWN_REMEDIES = 2
_SHOWN_SUSPECTS = 1
"""Of a possibility; `explain` has all."""
_JUST_ENDS = (
    "The engine is still loading, it was ended from outside (SIGKILL leaves no line), or its last words went elsewhere."
)


def _no_log() -> str:
    """Names the engines whose lines are known."""
    *others, last = [f"{engine.title}'s" for engine in ENGINES.values() if engine.log.shape]
    known = f"{', '.join(others)} or {last}"
    return f"No line of it has the shape of one of {known}, and none is in the catalogue of failures."


def diagnosis_page(found: Diagnosis, width: int) -> str:
    return "\n".join(_lines(found, width)).rstrip()


def attempts_page(way: Attempts, width: int) -> str:
    """A line for each start, as one would tell it afterwards."""
    return "\n".join(_attempts(way, width))


def _lines(found: Diagnosis, width: int) -> Iterator[str]:
    yield from _headline(found, width)
    yield style(_read(found), dim=True)
    yield ""
    if found.cause is not None:
        yield from _cause(found.cause, width)
    elif found.possibilities:
        yield from _possibilities(found, width)
    elif found.failed:
        yield from _unknown(found, width)
    elif found.code is not None:
        yield from _cause(next(finding for finding in found.findings if finding.code == found.code), width)
    elif not found.stood:
        yield from _unanswered(found, width)
    yield from _others(found, width)
    for note in found.notes:
        yield from _wrapped("note", note, width)


def _headline(found: Diagnosis, width: int) -> Iterator[str]:
    if found.cause is not None:
        yield from _heading(found.cause, "", width)
    elif found.possibilities:
        yield from _heading(found.possibilities[0], "possibly ", width)
        if len(found.possibilities) > 1:
            yield f"{len(found.possibilities)} possibilities, and no line decides between them"
    elif found.failed and found.findings and found.findings[0].causes:
        title = f"{found.findings[0].title}; several causes are possible"
        yield from (style(line, fg="red", bold=True) for line in textwrap.wrap(title, width))
    elif found.failed:
        yield style(f"{found.subject} failed, and no row of the catalogue knows why", fg="red", bold=True)
    elif found.stood or found.code is not None:
        slow = f", but it is slow: {found.code}" if found.code is not None else ""
        yield style("nothing failed", fg="green", bold=True) + f" in {found.subject}{slow}"
    else:
        yield style(_short_of_an_answer(found), fg="yellow", bold=True) + f": {found.subject}"


def _heading(cause: Finding, how_sure: str, width: int) -> Iterator[str]:
    """The code stands out; a long title goes on below."""
    first, *more = textwrap.wrap(f"{how_sure}{cause.code}: {cause.title}", width, break_on_hyphens=False)
    yield first.replace(cause.code, style(cause.code, fg="red", bold=True), 1)
    yield from more


def _short_of_an_answer(found: Diagnosis) -> str:
    if not found.log_bytes:
        return "the log is empty"
    return "this is no engine's log" if found.stood is None else "the log ends before the engine was ready"


def _read(found: Diagnosis) -> str:
    whose = f" of {found.engine or 'an unknown engine'}" if found.failed or found.stood is not None else ""
    earlier = f", the last of {found.starts} starts" if found.starts > 1 else ""
    lines = "1 line" if found.log_lines == 1 else f"{found.log_lines:,} lines"
    return f"{lines}{whose}{earlier}"


def _cause(cause: Finding, width: int) -> Iterator[str]:
    yield from _wrapped("cause", cause.cause, width)
    if cause.when:
        yield from _wrapped("when", cause.when, width)
    yield from _causes(cause, width)
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


def _possibilities(found: Diagnosis, width: int) -> Iterator[str]:
    """What is shown, then each with the test that decides and what to change if it is this one."""
    for piece in found.excerpt:
        yield from _evidence(piece, width)
    several = len(found.possibilities) > 1
    for number, finding in enumerate(found.possibilities, 1):
        yield ""
        title = f"{finding.title}. " if number > 1 else ""
        yield from _wrapped(f"cause {number}" if several else "cause", f"{title}{finding.cause}", width)
        if finding.when:
            yield from _wrapped("when", finding.when, width)
        if finding.test:
            yield from _wrapped("test", finding.test, width)
        for suspect in finding.causes[:_SHOWN_SUSPECTS]:
            yield from _wrapped("such as", suspect.cause, width)
            yield from _wrapped("", f"test: {suspect.test}", width)
        for place, remedy in enumerate(finding.remedies[:_SHOWN_REMEDIES]):
            yield from _remedy("do" if not place else "or", remedy, width)
    yield ""
    sources = [source for finding in found.possibilities for source in finding.sources[:1]]
    for number, source in enumerate(dict.fromkeys(sources)):
        yield style(f"{'sources' if not number else '':<{_LABEL}}", dim=True) + source
    yield from _row_to_fill_in(found)


def _causes(finding: Finding, width: int) -> Iterator[str]:
    """Ranked, each with what decides; a mark at those that another line speaks for."""
    for number, suspect in enumerate(finding.causes, 1):
        yield ""
        shown = " (another line speaks for it)" if suspect.shown else ""
        yield from _wrapped(f"cause {number}", f"{suspect.cause}{shown}", width)
        yield from _wrapped("test", suspect.test, width)


def _remedy(label: str, remedy: Remedy, width: int) -> Iterator[str]:
    yield from _wrapped(label, remedy_words(remedy), width)
    for command in remedy.commands:
        yield f"{'':<{_LABEL}}$ {command}"


def _unknown(found: Diagnosis, width: int) -> Iterator[str]:
    for piece in found.excerpt:
        yield from _evidence(piece, width)
    if found.findings and found.findings[0].causes:
        yield from _causes(found.findings[0], width)
    yield from _row_to_fill_in(found)


def _row_to_fill_in(found: Diagnosis) -> Iterator[str]:
    if found.row:
        yield ""
        yield "When you know why, this row tells it next time, in"
        yield f"{user_folder() / 'failures' / 'mine.yaml'}:"
        yield ""
        yield found.row.rstrip()


def _unanswered(found: Diagnosis, width: int) -> Iterator[str]:
    """No line names a failure, and none shows an engine that stands."""
    if found.stood is None and found.log_bytes:
        yield from _wrapped("why", _no_log(), width)
        return
    yield from _wrapped("why", _JUST_ENDS, width)
    if found.excerpt:
        yield ""
        yield style("the last words", dim=True)
    for piece in found.excerpt:
        yield from _said(piece, width)
    yield ""
    yield from _wrapped("do", "ask the kernel whether it killed something:", width)
    yield f"{'':<{_LABEL}}$ sudo dmesg -T | grep -iE 'killed process|out of memory'"


def _evidence(seen: Sighting, width: int) -> Iterator[str]:
    if seen.where == "log":
        label = f"line {seen.number:,}" if seen.number else "the last words"
        yield style(f"{label}{f', {seen.rank}' if seen.rank else ''}", dim=True)
    else:
        speaker = {"kernel": "the kernel says", "evidence": "the evidence says"}.get(seen.where, "the machine says")
        yield style(speaker, dim=True)
    yield from _said(seen, width)


def _said(seen: Sighting, width: int) -> Iterator[str]:
    text = seen.text if len(seen.text) <= _LONGEST_LINE else f"{seen.text[:_LONGEST_LINE]} …"
    for line in textwrap.wrap(text, width - 2, break_on_hyphens=False) or [""]:
        yield f"  {line}"


def _others(found: Diagnosis, width: int) -> Iterator[str]:
    shown = {found.code, *(finding.code for finding in found.possibilities)}
    if found.code is None and found.failed and found.findings and found.findings[0].causes:
        shown.add(found.findings[0].code)
    others = [finding for finding in found.findings if finding.code not in shown]
    for number, finding in enumerate(others):
        if not number:
            yield ""
        where = f" (line {finding.seen.number:,})" if finding.seen.number else ""
        yield from _wrapped("also" if not number else "", f"{finding.code}: {finding.title}{where}", width)


def _attempts(way: Attempts, width: int) -> Iterator[str]:
    yield style(f"{len(way.attempts)} attempt{'s' if len(way.attempts) != 1 else ''} of {way.name}", bold=True)
    for attempt in way.attempts:
        outcome = (
            style("stands", fg="green")
            if attempt.result == "ready"
            else style(attempt.code or attempt.result, fg="red")
        )
        yield f"{attempt.number:>3}  {attempt.engine:<13} {format_duration(attempt.seconds):>8}  {outcome}"
        if attempt.change is not None:
            yield from textwrap.wrap(
                remedy_words(attempt.change), width, initial_indent=" " * 5, subsequent_indent=" " * 5
            )
        if attempt.result != "ready" and attempt.code is None and attempt.said:
            yield from textwrap.wrap(attempt.said, width, initial_indent=" " * 5, subsequent_indent=" " * 5)
    if way.stopped:
        yield from textwrap.wrap(way.stopped, width)


def _wrapped(label: str, text: str, width: int) -> Iterator[str]:
    for number, line in enumerate(textwrap.wrap(text, width - _LABEL, break_on_hyphens=False)):
        yield style(f"{label if not number else '':<{_LABEL}}", dim=True) + line

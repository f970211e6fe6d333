"""Diagnoses a log, with what is known of its run: the first cause rather than the last symptom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from upright.base.bounds.files import open_file
from upright.facts import catalog
from upright.facts.catalog.rows.failure import SPECIFICITY_ORDER, FailureRow
from upright.facts.records.diagnosis import (
    CERTAIN,
    MOST_POSSIBILITIES,
    Diagnosis,
    Finding,
    RankedCause,
    Severity,
    Sighting,
)
from upright.facts.records.recipe import Recipe
from upright.serving.diagnose import lines, milestones
from upright.serving.diagnose.excerpt import (
    excerpt,
    frames_above,
    frames_at_the_end,
    frames_below,
    last_lines,
    main_exception,
    suggested_row,
)
from upright.serving.diagnose.free_text import rows_in_free_text, without_context
from upright.serving.diagnose.parts import goes_on, likely_parts
from upright.serving.diagnose.remedies import already_applied, fill_placeholders, remedies_for_line
from upright.serving.diagnose.scan import HEAD_BYTES, OUTLASTING, Hit, Scan, scan

_WEIGHT = {"fatal": 0, "crash": 0, "corruption": 0, "hang": 0, "request": 1, "symptom": 2, "slow": 3, "information": 4}
_FAILURE = 2
"""Heavier rows (a smaller number is heavier) mean that something failed."""
_KILLED = -9
_SIGNALLED = 128
"""A shell or a container adds this to the number of the signal that ended a program."""


@dataclass(frozen=True)
class LogContext:
    """What is known of a run beside its log. Nothing at all, for a file that somebody sent."""

    engine: str | None = None
    exit_code: int | None = None
    """The engine's; None if it runs, or nobody knows."""
    failed: bool | None = None
    """Whether it is known to have failed; None if the log must say so."""
    stood: bool | None = None
    """Whether it is known to have come up; None if the log must say so."""
    hung: bool = False
    """Whether it is there and no longer answers."""
    reason: str | None = None
    """Why, in the supervisor's words."""
    silent_seconds: float | None = None
    """Since the last line; None if nobody knows."""
    machine: tuple[Sighting, ...] = ()
    """What the machine says when it is asked."""
    recipe: Recipe | None = None
    """What it was started with: no remedy is what that has already."""
    notes: tuple[str, ...] = ()


def rows_of_lines() -> list[FailureRow]:
    """Those that are looked for in every line of a log."""
    return [row for row in catalog.failures() if row.where not in ("answer", "evidence", "frame", "words", "part")]


def diagnose_file(log: Path, *, subject: str | None = None, around: LogContext | None = None) -> Diagnosis:
    with open_file(log) as stream:
        return diagnose(stream, subject=subject or str(log), around=around)


def diagnose(log: BinaryIO, *, subject: str, around: LogContext | None = None) -> Diagnosis:
    """One pass; a second one over a part of it only for a cause that no row knows, so `log` must be seekable."""
    around = around or LogContext()
    rows = rows_of_lines()
    seen = scan(log, rows)
    engine = around.engine or milestones.engine_of(seen.head) or _engine_by_rows(seen)
    hits = _scoped([hit for hit in _told_apart(seen) if hit.row.severity != "hang"], engine)
    hits = without_context(seen, hits) if around.stood is None and _stood(seen) is None else hits
    hits += _machine_hits(around.machine, seen)
    hits += _ended(around, rows) if not any(map(_is_failure, hits)) else []
    ending = _ending(seen, rows, around)
    hits += [ending] if ending is not None and _hangs(ending, seen, around) else []
    stood = _stood(seen) if around.stood is None else around.stood
    seen = seen if around.failed else _of_what_is_left(seen)
    if seen.ready or seen.starts or around.stood:  # before it stood nobody could ask it
        hits = [replace(hit, served=True) for hit in hits]
    hits.sort(key=lambda hit: _order(hit, around))
    verdict = _judged(log, seen, hits, around, stood)
    failed, hits = verdict.failed, verdict.hits
    return Diagnosis(
        subject=subject,
        engine=engine,
        failed=failed,
        stood=stood,
        code=_code(verdict, stood),
        certainty=verdict.certainty,
        findings=tuple(_finding(hit, engine, around.recipe, seen) for hit in hits),
        excerpt=verdict.pieces,
        row=suggested_row(verdict.pieces, engine) if failed and _is_new(verdict) else None,
        log_lines=seen.lines,
        log_bytes=seen.bytes,
        starts=seen.starts,
        notes=(
            *around.notes,
            *_left_out(hits, engine, around.recipe),
            *_not_looked_at(seen),
            *(_may_hang(ending) if not failed and around.silent_seconds is None else ()),
        ),
    )


class _Verdict(NamedTuple):
    """What the hits come to."""

    hits: list[Hit]
    """The cause, or the possibilities, first."""
    failed: bool
    certainty: Literal["cause", "possibly"] | None
    pieces: tuple[Sighting, ...]


def _judged(log: BinaryIO, seen: Scan, hits: list[Hit], around: LogContext, stood: bool | None) -> _Verdict:
    """A line or a class that a row knows is the cause. Else where it was raised comes before what was said, and what a
    log says before what a person writes; a warning explains only what is known to have failed."""
    loud = [hit for hit in hits if _is_failure(hit) and not _is_quiet(hit)]
    named = [hit for hit in loud if hit.row.severity != "symptom"]
    failed = bool(loud) or bool(around.failed) or seen.dying is not None or bool(seen.errors)
    if named and _certainty(named[0]) == "cause":
        return _Verdict(_first(named[:1], hits), True, "cause", (named[0].first,))
    rows = catalog.failures()
    place = engine_part_hit(log, seen, rows) if failed else None
    place = place or cut_traceback_hit(seen, rows)
    words = rows_in_free_text(seen, hits, rows) if stood is None else []
    warned = [replace(hit, quiet=False) for hit in hits if _is_quiet(hit) and hit.row.severity != "symptom"]
    told = [hit for hit in named if hit.row.tells != "consequence"]
    followed = [hit for hit in named if hit.row.tells == "consequence"]
    possible = [*([place] if place else []), *told, *words, *followed, *(warned if failed else ())]
    possible = _with_parts(possible, _parts(seen, hits, failed=failed, stood=stood))
    if possible:
        wide = failed and possible[0].row.where in ("frame", "part")
        pieces = excerpt(log, seen, around.reason) if wide else (possible[0].first,)
        return _Verdict(_first(possible, hits), True, "possibly", pieces)
    slow = [hit for hit in hits if hit.row.severity == "slow"] if not failed and stood is None else []
    if slow:
        return _Verdict(_first(slow, hits), False, _certainty(slow[0]), (slow[0].first,))
    pieces = excerpt(log, seen, around.reason) if failed else last_lines(seen) if stood is False else ()
    return _Verdict(_first(loud, hits), failed, "possibly" if loud and loud[0].row.suspects else None, pieces)


def _is_new(verdict: _Verdict) -> bool:
    """Whether no row knows more than the part."""
    return verdict.certainty is None or verdict.hits[0].row.where == "part"


def _certainty(hit: Hit) -> Literal["cause", "possibly"]:
    return "cause" if hit.row.knowledge in CERTAIN else "possibly"


def _code(verdict: _Verdict, stood: bool | None) -> str | None:
    """What answers: the cause, the first possibility, or what makes a run slow where nothing failed."""
    slow = [hit.row.id for hit in verdict.hits if stood and not verdict.failed and hit.row.severity == "slow"]
    named = [hit.row.id for hit in verdict.hits[:1] if verdict.certainty and hit.row.severity != "symptom"]
    return next(iter([*named, *slow]), None)


def _parts(seen: Scan, hits: Sequence[Hit], *, failed: bool, stood: bool | None) -> list[Hit]:
    """None where a row knows that nothing failed, where a program says that it goes on, and where a symptom of that
    part ranks causes of its own."""
    harmless = any(hit.row.severity in OUTLASTING for hit in hits) or goes_on(seen)
    if not failed and (stood is not None or harmless):
        return []
    parts = likely_parts(seen, catalog.failures(), of_an_engine=stood is not None)
    ranking = {hit.row.part for hit in hits if hit.row.severity == "symptom" and hit.row.suspects}
    return [] if parts and parts[0].row.part in ranking else parts


def _with_parts(closer: list[Hit], parts: Sequence[Hit]) -> list[Hit]:
    """What is left of so many possibilities goes to parts that nothing closer speaks of."""
    known = {hit.row.part for hit in closer}
    left = max(0, MOST_POSSIBILITIES - len(closer))
    return [*closer, *[hit for hit in parts if hit.row.part not in known][:left]]


def _first(chosen: Sequence[Hit], hits: Sequence[Hit]) -> list[Hit]:
    """These, each once, and then the others."""
    ordered = {hit.row.id: hit for hit in (*hits, *chosen)}
    return [ordered[name] for name in dict.fromkeys(hit.row.id for hit in (*chosen, *hits))]


def cause_in_log(log: Path, engine: str) -> str | None:
    """`CODE: LINE`, or only the line if nothing names the cause: for whoever saw an engine end, and must say why."""
    diagnosis = diagnose_file(log, around=LogContext(engine=engine, failed=True))
    loud = diagnosis.code is not None or any(milestones.complains(piece.text) for piece in diagnosis.excerpt)
    if not loud or not diagnosis.excerpt:
        return None
    line = lines.message_of(diagnosis.excerpt[-1].text)
    return f"{diagnosis.code}: {line}" if diagnosis.certainty == "cause" else line


def _told_apart(seen: Scan) -> list[Hit]:
    """Of the rows that claim one line, those for whose cause another line speaks; all of them if the log has none."""
    borne_out = {hit.first.number for hit in seen.hits.values() if hit.row.id in seen.beside}
    return [
        hit
        for hit in seen.hits.values()
        if hit.row.beside is None or hit.row.id in seen.beside or hit.first.number not in borne_out
    ]


def _scoped(hits: list[Hit], engine: str | None) -> list[Hit]:
    """Rows of this engine; those of another only if the log was taken for the wrong engine's."""
    ours = [hit for hit in hits if engine is None or engine in hit.row.engines or "any" in hit.row.engines]
    return ours if any(_is_failure(hit) for hit in ours) else hits


def _machine_hits(said: Sequence[Sighting], seen: Scan) -> list[Hit]:
    """What is no failure by itself counts where a line of the log speaks for it."""
    hits: dict[str, Hit] = {}
    for sighting in said:
        for row in catalog.failures():
            told = row.beside is None or row.id in seen.beside
            if told and row.where == sighting.where and (match := row.match(sighting.text)):
                captures = {name: captured for name, captured in match.groupdict().items() if captured}
                hits.setdefault(row.id, Hit(row, sighting, captures)).count += 1
    return list(hits.values())


def _ended(around: LogContext, rows: Sequence[FailureRow]) -> list[Hit]:
    """What its exit code tells, where nothing else does: a signal's number, or 128 and that from a wrapper."""
    code = around.exit_code
    if code is None or not (code < 0 or code > _SIGNALLED):
        return []
    ended = Sighting(where="host", text=f"the engine exited with code {_SIGNALLED - code if code < 0 else code}")
    return [Hit(row, ended, {}, 1) for row in rows if row.where == "log" and row.matches(ended.text)][:1]


def _ending(seen: Scan, rows: Sequence[FailureRow], around: LogContext) -> Hit | None:
    """The lines at the log's end, if they are normal while something follows them."""
    if (around.failed and not around.hung) or around.exit_code is not None or seen.dying is not None or not seen.tail:
        return None
    hangs = [row for row in rows if row.severity == "hang"]
    last: Hit | None = None
    for back, text in enumerate(reversed(seen.tail)):
        row = next((hang for hang in hangs if hang.id in seen.hits and hang.matches(text)), None)
        if row is None or (last is not None and row is not last.row):
            break
        known = seen.hits[row.id]
        last = Hit(row, known.first.model_copy(update={"number": seen.lines - back, "text": text}), {}, back + 1)
        last.ranks = known.ranks
    return last


def _hangs(last: Hit, seen: Scan, around: LogContext) -> bool:
    """Whether nothing has followed for long. A text that ends is no silence, unless its last lines tell of one."""
    if last.row.repeats is not None:
        return _said_again(seen.tail) >= last.row.repeats
    silent = around.silent_seconds
    if silent is None:
        told: Counter[str] = Counter()  # by process: several may have waited at the same time
        for text in seen.tail[-last.count :]:
            match, process = last.row.match(text), (lines.rank_of(text) or "").partition(" ")[0]
            told[process] += int(match.groupdict().get("seconds") or 0) if match else 0
        silent = max(told.values(), default=0)
    return silent >= (last.row.silence_seconds or 0)


def _may_hang(last: Hit | None) -> Iterator[str]:
    if last is not None and last.row.repeats is None:
        seconds, row = last.row.silence_seconds, last.row
        yield f"its last line is a normal one; if nothing has followed it for {seconds} s, it is {row.id}: {row.title}"


def _said_again(tail: Sequence[str]) -> int:
    """How many of the last lines say the very same, whenever they say it: a figure that moves is progress."""
    sentences = [lines.message_of(text) for text in reversed(tail)]
    return next((number for number, sentence in enumerate(sentences) if sentence != sentences[0]), len(sentences))


def _order(hit: Hit, around: LogContext) -> tuple[int, int, int, bool, int]:
    """Weight first, then how much the row knows, then time. What killed a process from outside comes before what it
    said inside; what falls because something else fell comes last, though its line often stands first."""
    outside = hit.first.where != "log" and hit.row.beside is None
    first = 0 if outside == (around.exit_code == _KILLED) else 1
    weight = _WEIGHT[_severity(hit)]
    if hit.row.tells == "consequence":
        weight = max(weight, _WEIGHT["request"])
    return weight, first, SPECIFICITY_ORDER[hit.row.tells], _certainty(hit) != "cause", hit.first.number or 0


def _engine_by_rows(seen: Scan) -> str | None:
    """Whose line it is, where only one engine prints it."""
    owners = {hit.row.engines[0] for hit in seen.hits.values() if len(hit.row.engines) == 1 and hit.row.alarms}
    return owners.pop() if len(owners) == 1 and "any" not in owners else None


def _is_failure(hit: Hit) -> bool:
    return _WEIGHT[hit.row.severity] <= _FAILURE


def _is_quiet(hit: Hit) -> bool:
    """A warning, or a line for information. A request that is lost is often logged so: of an engine that stands it is
    what a client asked, of an excerpt it may be what somebody asks about."""
    weight = _WEIGHT[hit.row.severity]
    return hit.quiet and (weight in (_WEIGHT["crash"], _WEIGHT["symptom"]) or (hit.served and weight <= _FAILURE))


def _severity(hit: Hit) -> Severity:
    return "information" if _is_quiet(hit) else hit.row.severity


def _of_what_is_left(seen: Scan) -> Scan:
    """Of an engine that stood, the complaints that it went on after are its own affair; with the last words it fell."""
    if not seen.ready:
        return seen
    words: set[str] = set()
    for text in reversed(seen.tail):
        if lines.is_quiet(text) or lines.tells_no_level(text) or milestones.shows_serving(text):
            break
        words.add(text)
    return replace(seen, errors=[said for said in seen.errors if said.text in words])


def _stood(seen: Scan) -> bool | None:
    """None if no line of it is an engine's."""
    if seen.ready or any(milestones.shows_serving(text) for text in seen.tail):
        return True
    spoken = seen.starts or any(milestones.is_engine_line(text) for text in (*seen.head.splitlines(), *seen.tail))
    return False if spoken else None


def _not_looked_at(seen: Scan) -> tuple[str, ...]:
    if not seen.passed_over:
        return ()
    return (
        f"{seen.passed_over:,} of {seen.lines:,} lines were not looked at: too many differ from all others. "
        "The beginning and the end of the log were",
    )


def _finding(hit: Hit, engine: str | None, recipe: Recipe | None, seen: Scan) -> Finding:
    row = hit.row
    remedies = remedies_for_line(row.remedies, engine, hit.words)
    return Finding(
        code=row.id,
        title=fill_placeholders(row.title, hit.words),
        severity=_severity(hit),
        cause=fill_placeholders(row.cause, hit.words),
        when=row.when,
        causes=_ranked(row, seen),
        knows=row.knowledge,
        part=row.part,
        test=_test(row),
        seen=hit.first,
        count=hit.count,
        ranks=tuple(hit.ranks),
        remedies=tuple(remedy for remedy in remedies if recipe is None or not already_applied(recipe, remedy)),
        sources=row.sources,
    )


def _test(row: FailureRow) -> str | None:
    """What decides whether a possibility is the one: of its part, if it says none itself."""
    part = row if row.test is not None else catalog.failing_part(row.part)
    return part.test if part is not None and row.knowledge not in CERTAIN else None


def _ranked(row: FailureRow, seen: Scan) -> tuple[RankedCause, ...]:
    """Those for which the beginning or the end of the log speaks come first, else in the row's order."""
    around = (*seen.head.splitlines(), *seen.tail) if row.suspects else ()
    ranked = []
    for suspect in row.suspects:
        beside = re.compile(suspect.beside) if suspect.beside is not None else None
        shown = beside is not None and any(beside.search(line) and not row.matches(line) for line in around)
        ranked.append(RankedCause(cause=suspect.cause, test=suspect.test, shown=shown))
    return tuple(sorted(ranked, key=lambda suspect: not suspect.shown))


def _left_out(hits: Sequence[Hit], engine: str | None, recipe: Recipe | None) -> Iterator[str]:
    for hit in hits if recipe is not None else ():
        remedies = remedies_for_line(hit.row.remedies, engine, hit.words)
        if recipe is not None and remedies and all(already_applied(recipe, remedy) for remedy in remedies):
            yield f"the recipe has every remedy that the catalogue knows for {hit.row.id}"


MOST_FRAMES = 60
FEWEST_FRAMES = 2
"""Of a traceback that is cut: one frame alone may be a warning's."""
CUT = "the traceback is cut: the exception stands below its last frame, and tells more; look for the first one"


def engine_part_hit(log: BinaryIO, seen: Scan, rows: Iterable[FailureRow]) -> Hit | None:
    """None if nothing was raised, no frame is shown, or none lies in a part that a row names."""
    exception = main_exception(seen)
    if exception is None:
        return None
    known = [row for row in rows if row.where == "frame"]
    frames = frames_above(log, seen, exception) or frames_below(seen, exception)
    row = _innermost(frames[:MOST_FRAMES], known)
    return Hit(row, exception, {}, 1) if row is not None else None


def cut_traceback_hit(seen: Scan, rows: Iterable[FailureRow]) -> Hit | None:
    """Of a text that ends before the exception of its traceback: the part that the last frames lie in."""
    if seen.ready or seen.bytes > HEAD_BYTES or main_exception(seen) is not None:
        return None
    frames = frames_at_the_end(seen)
    enough = len(frames) >= FEWEST_FRAMES or any("ERROR" in frame.text for frame in frames)
    row = _innermost(frames, [row for row in rows if row.where == "frame"]) if enough else None
    return Hit(row.model_copy(update={"when": CUT}), frames[0], {}, 1) if row is not None else None


def _innermost(frames: Sequence[Sighting], rows: Sequence[FailureRow]) -> FailureRow | None:
    """Frames come innermost first; of several rows that name one frame the first of the catalogue speaks."""
    named = (row for frame in frames for row in rows if row.matches(frame.text))
    return next(named, None)

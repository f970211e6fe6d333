"""An older and a newer release + our rows -> the rows whose ground is gone, has changed, or ends here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from absorbing.citing import citations
from absorbing.release import Release
from upright.engines import ENGINES
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.loader import KINDS
from upright.facts.catalog.rows.base import Row

ROOT = Path(__file__).resolve().parent.parent.parent
Verdict = Literal["gone", "ended", "changed", "file changed"]
MEANS: Mapping[Verdict, str] = {
    "gone": "no longer hold: what they rest on is not in this release",
    "ended": "end here: their range does not reach this release; hold them against it before raising it",
    "changed": "to be read again: the lines, bytes or default that they rest on have changed",
    "file changed": "cite a whole file, which has changed somewhere",
}
PLAIN_WORD = re.compile(r"-?[A-Za-z0-9_.]+")
NOT_FACTS = {"file", "owner", "sources", "source", "seen", "broken_by"}


@dataclass(frozen=True)
class Doubt:
    """One row, reader or file that must be looked at."""

    verdict: Verdict
    place: str
    """`KIND/ID`, or a file of ours."""
    why: str
    ends: bool = False
    """Whether all that the row is about is gone, so that its range ends before the newer release."""


def doubts(older: Release, newer: Release) -> list[Doubt]:
    """Every doubt once, by verdict and place."""
    gone = {kind: older.names[kind] - newer.names[kind] for kind in older.names}
    engine_rows = list(rows_about(older.engine))
    every = {
        *_named(engine_rows, gone, older.engine),
        *_ranges(engine_rows, older, newer),
        *_defaults(engine_rows, older, newer),
        *_patched(engine_rows, older, newer),
        *_cited(engine_rows, older, newer),
        *_failures(older, newer),
        *_readers(older, newer),
        *_files(gone, older.engine),
    }
    order = list(MEANS)
    return sorted(every, key=lambda doubt: (order.index(doubt.verdict), doubt.place, doubt.why))


def rows_about(engine: str) -> Iterator[tuple[str, Row]]:
    """Rows of every kind that name this engine, or no engine at all."""
    for kind in KINDS:
        for row in catalog.rows(kind).values():
            named = getattr(row, "engine", None) or getattr(row, "engines", None)
            if named is None or named == engine or (not isinstance(named, str) and {engine, "any"} & set(named)):
                yield kind, row


def spans(row: Row) -> Iterator[tuple[str, str]]:
    """The versions that a row speaks of, and those that its figures and their band were fitted on."""
    for place, holder in (
        ("versions", row),
        ("when", getattr(row, "when", None)),
        ("home", getattr(row, "home", None)),
    ):
        span = getattr(holder, "versions", None)
        if isinstance(span, str):
            yield place, span


def leaves(content: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text of a row, with the keys that lead to it."""
    if isinstance(content, str):
        yield path, content
    elif isinstance(content, Mapping):
        for key, inner in content.items():
            if key not in NOT_FACTS:
                yield from leaves(inner, (*path, str(key)))
    elif isinstance(content, (list, tuple)):
        for inner in content:
            yield from leaves(inner, path)


def speaks_of(text: str, name: str) -> bool:
    """A plain word must be the whole text: `triton` in a sentence may be anything."""
    if PLAIN_WORD.fullmatch(name) and name.islower():
        return text == name
    return re.search(rf"(?<![\w:-]){re.escape(name)}(?![\w-])", text) is not None


def _named(engine_rows: Iterable[tuple[str, Row]], gone: Mapping[str, frozenset[str]], engine: str) -> Iterator[Doubt]:
    names = [(kind, name) for kind in gone for name in gone[kind]]
    for row_kind, row in engine_rows if names else ():
        own = getattr(row, "engine", None) or getattr(row, "engines", None)
        texts = list(leaves(row.model_dump(mode="json")))
        for kind, name in names:
            heard = [
                text
                for path, text in texts
                if speaks_of(text, name) and (own or engine in path or kind == "architecture")
            ]
            if heard:
                whole = row_kind == "flags" and set(getattr(row, "flags", ())) <= gone["flag"]
                yield Doubt("gone", f"{row_kind}/{row.id}", f"{kind} {name} is not in this release", ends=whole)


def _ranges(engine_rows: Iterable[tuple[str, Row]], older: Release, newer: Release) -> Iterator[Doubt]:
    for kind, row in engine_rows:
        if getattr(row, "engine", None) is None and getattr(row, "engines", None) is None:
            continue
        expires = getattr(row, "expires", None)
        if (
            expires
            and versions.in_range(newer.version, f">={expires}")
            and not versions.in_range(older.version, f">={expires}")
        ):
            yield Doubt("ended", f"{kind}/{row.id}", f"it expires with {expires}")
        for place, span in spans(row):
            if versions.in_range(older.version, span) and not versions.in_range(newer.version, span):
                about = f"its band was fitted on {span}" if place == "home" else f"versions {span}"
                yield Doubt("ended", f"{kind}/{row.id}", about)


def _defaults(engine_rows: Iterable[tuple[str, Row]], older: Release, newer: Release) -> Iterator[Doubt]:
    moved = {
        flag: (older.defaults[flag], newer.defaults[flag])
        for flag in older.defaults.keys() & newer.defaults.keys()
        if older.defaults[flag] != newer.defaults[flag]
    }
    for kind, row in engine_rows:
        for flag in set(getattr(row, "flags", ())) & moved.keys() if kind == "flags" else ():
            before, after = moved[flag]
            yield Doubt("changed", f"{kind}/{row.id}", f"default of {flag}: {before} -> {after}")


def _patched(engine_rows: Iterable[tuple[str, Row]], older: Release, newer: Release) -> Iterator[Doubt]:
    for kind, row in engine_rows:
        if kind != "patches" or (row.expires and versions.in_range(newer.version, f">={row.expires}")):
            continue
        for path in {known.path for known in row.files} & older.files.keys():
            if path not in newer.files:
                yield Doubt("gone", f"{kind}/{row.id}", f"{path} is not in this release")
            elif newer.digest(path) not in {known.sha256 for known in row.files}:
                yield Doubt("changed", f"{kind}/{row.id}", f"{path} has other bytes: sha256 {newer.digest(path)}")


def _cited(engine_rows: Iterable[tuple[str, Row]], older: Release, newer: Release) -> Iterator[Doubt]:
    for kind, row in engine_rows:
        for source in row.sources:
            for citation in citations(source, older.engine):
                if verdict := citation.held(older, newer):
                    yield Doubt(verdict[0], f"{kind}/{row.id}", verdict[1])


def _failures(older: Release, newer: Release) -> Iterator[Doubt]:
    """Rows whose every message was in files that changed, and is in no file any more."""
    left, come = older.changed(newer), newer.changed(older)
    vanished = older.messages(left) - newer.messages(come)
    rows = [row for row in catalog.failures(older.engine) if row.where == "log" and row.tells in ("cause", "class")]
    doubted = [
        row for row in rows if any(map(row.matches, vanished)) and not any(map(row.matches, newer.messages(come)))
    ]
    kept = newer.messages(newer.files.keys() - come) if doubted else set()
    printed = newer.sentences(newer.files) if doubted else set()
    for row in doubted:
        lasting = any(map(row.matches, kept)) or any(map(row.matches, printed))
        if not lasting and versions.in_range(newer.version, row.versions):
            example = next(message for message in sorted(vanished) if row.matches(message))
            why = f"no message of this release matches it; the older one had {example[:110]!r}"
            yield Doubt("gone", f"failures/{row.id}", why, ends=older.engine in row.engines)


def _readers(older: Release, newer: Release) -> Iterator[Doubt]:
    """Patterns of our log reader that the older source printed and the newer does not."""
    left, come = older.changed(newer), newer.changed(older)
    vanished = older.sentences(left) - newer.sentences(come)
    for place, pattern in reader_patterns(older.engine):
        if (lost := next((text for text in sorted(vanished) if pattern.search(text)), None)) is None:
            continue
        if not any(map(pattern.search, newer.sentences(come))) and not any(
            map(pattern.search, newer.sentences(newer.files.keys() - come))
        ):
            yield Doubt("gone", place, f"{pattern.pattern!r} is printed no more; it was {lost.strip()[:110]!r}")


def reader_patterns(engine: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every alternative of every pattern by which an engine's log is read."""
    log = ENGINES[engine].log
    module = inspect.getmodule(log.memory)
    place = Path(str(getattr(module, "__file__", ""))).relative_to(ROOT).as_posix() if module else "the log reader"
    texts = [spelling.pattern.pattern for spelling in getattr(module, "SPELLINGS", ())]
    texts += [mark.pattern for mark in log.marks] + [pattern for pattern, _ in (*log.bars, *log.phases)]
    texts += [pattern for pattern in (log.serves, log.complaint, log.echo) if pattern]
    for text in dict.fromkeys(alternative for pattern in texts for alternative in alternatives(pattern)):
        yield place, re.compile(text)


def alternatives(pattern: str) -> list[str]:
    """What stands between the bars of a pattern that no bracket holds."""
    depth, cuts, place = 0, [-1], 0
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
        elif letter == "[":
            place = max(pattern.find("]", place + 2), place)
        elif letter == "|" and depth == 0:
            cuts.append(place)
        depth += (letter == "(") - (letter == ")")
        place += 1
    return [pattern[begin + 1 : end] for begin, end in pairwise((*cuts, len(pattern)))]


def _files(gone: Mapping[str, frozenset[str]], engine: str) -> Iterator[Doubt]:
    """Golden recipes, serving scripts and the engine's own folder, where they spell a name that is gone."""
    folder = inspect.getfile(type(ENGINES[engine]))
    spelled = list(Path(folder).parent.glob("*.py"))
    spelled += [
        path
        for pattern in ("tests/golden/recipes/*", "tests/golden/commands/*", "scripts/serve-*")
        for path in ROOT.glob(pattern)
        if path.is_file() and engine in path.read_text(errors="replace")
    ]
    for path in sorted(spelled):
        text = path.read_text(errors="replace")
        for kind, names in gone.items():
            for name in names:
                if not (PLAIN_WORD.fullmatch(name) and name.islower()) and speaks_of(text, name):
                    yield Doubt("gone", path.relative_to(ROOT).as_posix(), f"it spells {kind} {name}")

"""Admits a stranger's signed rows over ours, or says why not.

A signature says who wrote a row, not that it is good. What a row may do is what a fact does: it moves a figure, an
explanation, a verdict on a log. It may not become a command, a program, an image, code, or another's repository under
a name of ours, and it may not take an advisory away. Kinds that decide what is run come with a release only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from upright.base.errors import CatalogError, RecordError
from upright.base.untrusted_text import escape_controls, on_one_line
from upright.evidence.share.bounded_patterns import refusal
from upright.facts import catalog
from upright.facts.catalog.loader import files, row_of, rows_of_file
from upright.facts.catalog.rows.advisory import AdvisoryRow
from upright.facts.catalog.rows.base import Row
from upright.facts.catalog.rows.failure import SPECIFICITY_ORDER, FailureRow
from upright.facts.catalog.rows.memory_platform import MemoryPlatformRow
from upright.facts.catalog.rows.model import ModelRow, Parsers
from upright.facts.records.diagnosis import Remedy
from upright.serving.diagnose.literals import required_texts

MAY_BRING = (
    "gpus", "boxes", "memory_platforms", "links", "models", "schemes", "compat", "flags", "failures", "advisories",
    "terms", "scores", "measurements", "overheads", "pools", "speeds", "transfers", "prefills",
    "usages",
)  # fmt: skip
"""Facts. The others decide what is run (images, getting, patches, settings, constraints, dialects), or how files are
read (architectures, families, layouts, ggml_types): they come with a release of Upright."""
MOST_ROWS = 5_000
"""Of one catalogue, over all kinds."""
_LONGEST_TEXT = 4_000
_LONGEST_ID = 120
_LARGEST_NUMBER = 1e18
_REPOSITORY = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_LOWER_BOUND = re.compile(r">=[\w.]{1,20}")
_SWITCHES = frozenset({"chat_template_kwargs"})
_NEVER = frozenset({"--trust-remote-code", "--host"})
"""Flags that our own rows may set, and that no stranger's row sets: other people's code, another address."""


def admitted(kind: str, contents: Any, where: str) -> tuple[Row, ...]:
    """The rows, as they would be read. RecordError names the first that is refused."""
    if kind not in MAY_BRING:
        raise RecordError(f"{where} is refused: it brings {on_one_line(kind, 60)}, which only a release of Upright may")
    if not isinstance(contents, list) or len(contents) > MOST_ROWS:
        raise RecordError(f"{where} is refused: {kind} is no list of at most {MOST_ROWS:,} rows")
    admitted_rows: dict[str, Row] = {}
    for content in contents:
        row = _admitted_row(kind, content, where)
        if row.id in admitted_rows:
            raise RecordError(f"{where} is refused: {kind}/{row.id} is there twice")
        admitted_rows[row.id] = row
    return tuple(admitted_rows.values())


def _admitted_row(kind: str, content: Any, where: str) -> Row:
    name = content.get("id") if isinstance(content, dict) else None
    named = f"{kind}/{on_one_line(str(name), 60)}"
    faults = list(_unplain(content, 0))
    if not faults and (not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID or name != name.strip()):
        faults = ["its id is no name"]
    if faults:
        raise RecordError(f"{where} is refused: {named}: {faults[0]}")
    try:
        row = row_of(kind, content, Path(where))
    except CatalogError as error:
        raise RecordError(f"{where} is refused: {on_one_line(error.message.removeprefix(f'{where}: '))}") from None
    for fault in (*_takes_a_name(kind, row), *_BY_KIND.get(kind, lambda _row: ())(row)):
        raise RecordError(f"{where} is refused: {named}: {fault}")
    return row


def _unplain(part: Any, level: int) -> Iterator[str]:
    if level > 12:
        yield "it is nested too deeply"
    elif isinstance(part, str):
        if len(part) > _LONGEST_TEXT:
            yield f"a text of {len(part):,} characters, and {_LONGEST_TEXT:,} are the most"
        elif escape_controls(part) != part:
            yield "a text holds characters that a terminal obeys or hides"
    elif isinstance(part, int | float) and not isinstance(part, bool):
        if not math.isfinite(part) or abs(part) > _LARGEST_NUMBER:
            yield "a number is beyond any that is measured"
    elif isinstance(part, dict):
        for name, inner in part.items():
            yield from _unplain(name, level + 1)
            yield from _unplain(inner, level + 1)
    elif isinstance(part, list):
        for inner in part:
            yield from _unplain(inner, level + 1)


@cache
def ours(kind: str) -> Mapping[str, Row]:
    """The rows that came with the program: what strangers are held against, whatever was taken since."""
    own = [(path, owner) for path, owner in files(kind) if owner in ("upright", "package")]
    return MappingProxyType({row.id: row for path, owner in own for row in rows_of_file(kind, path, owner)})


def _takes_a_name(kind: str, row: Row) -> Iterator[str]:
    """Under a name of one of our rows only that row is laid over."""
    if kind in ("gpus", "boxes", "models"):
        for name in sorted(catalog.names_of(row)):
            if (holders := _our_names(kind).get(name)) and row.id not in holders:
                yield f"{on_one_line(name, 60)} is a name of {kind}/{holders[0]}"


@cache
def _our_names(kind: str) -> Mapping[str, list[str]]:
    holders: dict[str, list[str]] = {}
    for own in ours(kind).values():
        for name in catalog.names_of(own):
            holders.setdefault(name, []).append(own.id)
    return holders


def _model_faults(row: Row) -> Iterator[str]:
    row = cast(ModelRow, row)
    own = cast(ModelRow | None, ours("models").get(row.id))
    for repository in _repositories(row):
        if _REPOSITORY.fullmatch(repository) is None:
            yield f"{on_one_line(repository, 60)} is no repository"
        elif own is not None and repository.partition("/")[0].lower() not in _owners(own):
            yield f"{repository} is no repository of an owner that our row names: bring it as a row of its own"
    if row.own_code != (own.own_code if own else None):
        yield "own_code decides whether code of a repository is run: only a release of Upright may say so"
    recorded = {own_row.configuration for own_row in cast(Sequence[ModelRow], ours("models").values())}
    configurations = (row.configuration, *(artifact.configuration for artifact in row.artifacts))
    recorded |= {part.configuration for other in ours("models").values() for part in cast(ModelRow, other).artifacts}
    if any(name is not None and name not in recorded for name in configurations):
        yield "it names a recorded configuration that is not there"
    if any(artifact.chat_template for artifact in row.artifacts):
        yield "chat_template would be read as a file"
    for thinking in (row.thinking, *(artifact.thinking for artifact in row.artifacts)):
        for switch in (thinking.switch_on, thinking.switch_off) if thinking else ():
            if set(switch or ()) - _SWITCHES:
                yield "thinking is switched by chat_template_kwargs alone"
    for parsers in (row.parsers, *(artifact.parsers or {} for artifact in row.artifacts)):
        yield from _parser_faults(parsers)


def _repositories(row: ModelRow) -> tuple[str, ...]:
    artifacts = (artifact.repository for artifact in row.artifacts)
    return (row.repository, *artifacts, *(draft.repository for draft in row.drafts))


def _owners(own: ModelRow) -> set[str]:
    return {repository.partition("/")[0].lower() for repository in _repositories(own)}


def _parser_faults(parsers: Mapping[str, Parsers]) -> Iterator[str]:
    """They become words of a command: names that are plain, and flags that our own rows give that engine."""
    for engine, told in parsers.items():
        for name in (told.tool, told.reasoning):
            if name is not None and _PLAIN_NAME.fullmatch(name) is None:
                yield f"{on_one_line(name, 60)} is no name of a parser"
        if told.flags and (engine, told.flags) not in _our_parser_flags():
            yield f"{on_one_line(' '.join(told.flags), 60)}: flags that no row of ours gives {on_one_line(engine, 30)}"


@cache
def _our_parser_flags() -> frozenset[tuple[str, tuple[str, ...]]]:
    rows = cast(Sequence[ModelRow], ours("models").values())
    told = (parsers for row in rows for parsers in (row.parsers, *(part.parsers or {} for part in row.artifacts)))
    return frozenset((engine, parser.flags) for parsers in told for engine, parser in parsers.items())


def _failure_faults(row: Row) -> Iterator[str]:
    row = cast(FailureRow, row)
    unbounded = [fault for pattern in (row.pattern, row.beside or row.pattern) if (fault := _pattern_fault(pattern))]
    yield from unbounded or _claim_faults(row)
    for remedy in row.remedies:
        if not _may_cure(remedy):
            told = " ".join(part for part in (remedy.do, remedy.name, remedy.value) if part)
            yield f"{on_one_line(told, 80)}: a remedy that no row of ours has"
        if remedy.commands:
            yield "a remedy brings commands: only a release of Upright may"


def _pattern_fault(pattern: str) -> str | None:
    if (fault := refusal(pattern)) is not None:
        return fault
    return None if required_texts(pattern) else "its pattern holds no text: it would be tried on every line"


def _claim_faults(row: FailureRow) -> Iterator[str]:
    """A row that claims what it should not would hide the cause, or call an engine that works broken."""
    compiled = re.compile(row.pattern)
    if any(compiled.search(line) for line in catalog.healthy_lines()):
        yield "its pattern claims a line of engines that work"
    if row.seen != "none" and not all(compiled.search(seen.line) for seen in row.seen):
        yield "its pattern does not claim the line that it was seen on"
    for other in cast(Sequence[FailureRow], ours("failures").values()):
        if other.id == row.id or other.seen == "none" or SPECIFICITY_ORDER[row.tells] > SPECIFICITY_ORDER[other.tells]:
            continue
        if any(compiled.search(seen.line) for seen in other.seen):
            yield f"its pattern claims a line of failures/{other.id}"


def _may_cure(remedy: Remedy) -> bool:
    """Nothing that none of our own rows does: same change, same flag, same value."""
    if remedy.do in ("by_hand", "other_port"):
        return remedy.name is None and remedy.value is None
    if remedy.do == "use_version":
        return _LOWER_BOUND.fullmatch(remedy.value or "") is not None
    if remedy.name in _NEVER or remedy.do in ("use_patch", "use_image", "use_artifact"):
        return remedy.do == "use_artifact" and remedy.value is None
    if "{" in f"{remedy.name}{remedy.value}":
        return False
    return (remedy.do, remedy.name, remedy.value) in _our_cures()


@cache
def _our_cures() -> frozenset[tuple[str, str | None, str | None]]:
    rows = cast(Sequence[FailureRow], ours("failures").values())
    return frozenset((remedy.do, remedy.name, remedy.value) for row in rows for remedy in row.remedies)


def _advisory_faults(row: Row) -> Iterator[str]:
    row = cast(AdvisoryRow, row)
    if row.accepted is not None:
        yield "accepted silences an advisory: only a row of your own may"
    names = {row.id.lower(), *(alias.lower() for alias in row.aliases)}
    for own in cast(Sequence[AdvisoryRow], ours("advisories").values()):
        if names & {own.id.lower(), *(alias.lower() for alias in own.aliases)}:
            yield f"it is advisories/{own.id}, which only a release of Upright or a row of your own may change"


def _platform_faults(row: Row) -> Iterator[str]:
    for pattern in cast(MemoryPlatformRow, row).processors:
        if (fault := refusal(pattern)) is not None:
            yield fault


_BY_KIND: Mapping[str, Callable[[Row], Iterator[str]]] = MappingProxyType(
    {
        "models": _model_faults,
        "failures": _failure_faults,
        "advisories": _advisory_faults,
        "memory_platforms": _platform_faults,
    }
)

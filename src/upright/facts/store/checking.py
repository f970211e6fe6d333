"""A deployment's directory -> what is wrong with it: which file, which line, and what.

The chain tells an accident or a careless edit, not a forger: whoever rewrites every digest leaves a chain that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upright.base.bounds.files import file_bytes, file_lines
from upright.base.errors import RecordError, UsageError
from upright.facts.records.loading import KINDS, load, parse
from upright.facts.store.files import leftovers
from upright.facts.store.journal import NO_DIGEST, DamageError, Head, JournalLine, head_file, parse_line, read_head

Severity = Literal["problem", "note"]
_LINKED = ("box", "model", "plan", "recipe")
"""Records that do not change once written, so that a later record's `made_from` must still fit them."""


@dataclass(frozen=True)
class StoreFinding:
    """Something about a directory that a person should know."""

    severity: Severity
    code: str
    file: str
    line: int | None
    message: str


def check(directory: Path) -> list[StoreFinding]:
    """Everything found; no finding of severity `problem` means that the directory is sound."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    return [*_records(directory), *_evidence(directory / "evidence.jsonl"), *_left_behind(directory)]


def _records(directory: Path) -> Iterator[StoreFinding]:
    digests: dict[str, str] = {}
    parents: dict[str, list[str]] = {}
    for kind in KINDS:
        file = directory / f"{kind}.json"
        if not file.exists():
            continue
        try:
            content = file_bytes(file, own=True)
            load(content, where=str(file))
            payload = parse(content, where=str(file))
        except OSError as error:
            yield StoreFinding("problem", "unreadable", file.name, None, f"cannot be read: {error.strerror}")
            continue
        except RecordError as error:
            yield StoreFinding("problem", "unreadable", file.name, None, error.message.removeprefix(f"{file} "))
            continue
        if "digest" not in payload:
            yield StoreFinding("note", "no-digest", file.name, None, "has no digest: it was written or edited by hand")
        if kind == "deployment" and payload.get("name") != directory.name:
            message = f"is that of {payload.get('name')}: this directory is a copy, or was renamed"
            yield StoreFinding("note", "renamed", file.name, None, message)
        digests[kind] = str(payload.get("digest"))
        parents[kind] = [str(reference) for reference in payload.get("made_from", ())]
    for kind, references in parents.items():
        for reference in references:
            parent, _, digest = reference.partition(":")
            if parent in _LINKED and digests.get(parent, digest) != digest:
                message = f"was made from {parent} {digest[:12]}, but {parent}.json here is {digests[parent][:12]}"
                yield StoreFinding("problem", "other-parent", f"{kind}.json", None, message)
    if not (directory / "deployment.json").exists():
        yield StoreFinding("problem", "no-deployment", "deployment.json", None, "is missing: this is no deployment")


def _evidence(path: Path) -> Iterator[StoreFinding]:
    chain = _Chain(path.name)
    torn_bytes = 0
    try:
        for number, raw in enumerate(file_lines(path, own=True), start=1):
            if raw.endswith(b"\n"):
                yield from chain.take(number, raw[:-1], path)
            else:
                torn_bytes = len(raw)
    except FileNotFoundError:
        pass
    except OSError as error:
        yield StoreFinding("problem", "unreadable", path.name, None, f"cannot be read: {error.strerror}")
    yield from chain.gaps()
    head = read_head(path)
    yield from chain.end(head, torn_bytes)
    if head is None and chain.places:
        message = "is missing or unreadable: lines removed from the end could not be noticed"
        yield StoreFinding("note", "no-head", head_file(path).name, None, message)


class _Chain:
    """What has been seen of a log: each entry's place and digest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[int, int] = {}
        self.digests: dict[int, str] = {0: NO_DIGEST}
        self.newest = 0

    def take(self, number: int, raw: bytes, path: Path) -> Iterator[StoreFinding]:
        try:
            line = parse_line(raw, path, f"line {number}")
        except DamageError as error:
            # It holds the place of the entry that should stand here, so that this is told once and not twice.
            self.newest += 1
            self.places.setdefault(self.newest, number)
            yield self._found("changed" if error.whole else "truncated", number, error.what)
            return
        if self.digests.get(line.seq) == line.digest:
            yield self._found("duplicated", number, f"repeats line {self.places[line.seq]} (entry {line.seq})")
            return
        if line.seq in self.digests:
            yield self._found("replaced", number, f"is another entry {line.seq} than line {self.places[line.seq]}")
            return
        if line.seq < self.newest:
            yield self._found("reordered", number, f"holds entry {line.seq}, which belongs before {self.newest}")
        yield from self._link(number, line)
        self.places[line.seq], self.digests[line.seq] = number, line.digest
        self.newest = max(self.newest, line.seq)

    def _link(self, number: int, line: JournalLine) -> Iterator[StoreFinding]:
        before = self.digests.get(line.seq - 1)
        if before is not None and before != line.previous:
            place = self.places.get(line.seq - 1, 0)
            problem = f"was not written after line {place}" if place else "does not begin a log"
            yield self._found("replaced", number, f"{problem}: one of them was replaced")

    def gaps(self) -> Iterator[StoreFinding]:
        ordered = sorted(self.places)
        for before, after in zip([0, *ordered], ordered, strict=False):
            if after - before > 1:
                number = self.places[after]
                yield self._found("missing", number, f"{_entries(before + 1, after - 1)} missing before it")

    def end(self, head: Head | None, torn_bytes: int) -> Iterator[StoreFinding]:
        acknowledged = head.entries if head else 0
        if acknowledged > self.newest:
            message = f"{_entries(self.newest + 1, acknowledged)} missing after it: {acknowledged} were acknowledged"
            if torn_bytes:
                message += f", and the last line is cut to {torn_bytes:,} bytes"
            yield self._found("truncated" if torn_bytes else "missing", self.places.get(self.newest), message)
        elif torn_bytes:
            message = (
                f"the last {torn_bytes:,} bytes are a torn line, never acknowledged; the next append sets it aside"
            )
            yield StoreFinding("note", "torn", self.name, None, message)
        if head is not None and head.entries in self.places:
            digest = self.digests.get(head.entries)
            if digest is not None and digest != head.digest:
                message = f"is not the entry {head.entries} that was acknowledged: it was replaced"
                yield self._found("replaced", self.places[head.entries], message)

    def _found(self, code: str, number: int | None, message: str) -> StoreFinding:
        return StoreFinding("problem", code, self.name, number, message)


def _left_behind(directory: Path) -> Iterator[StoreFinding]:
    for torn in sorted(directory.glob("evidence.torn-*")):
        message = f"{torn.stat().st_size:,} bytes of a line that was never acknowledged, set aside after a crash"
        yield StoreFinding("note", "torn-kept", torn.name, None, message)
    for damaged in sorted(directory.glob("evidence.damaged-*.jsonl")):
        yield StoreFinding("note", "damaged-kept", damaged.name, None, "an older log that no longer fitted its chain")
    for leftover in leftovers(directory):
        message = "was left by a writer that was killed; it is removed in time"
        yield StoreFinding("note", "leftover", leftover.name, None, message)


def _entries(first: int, final: int) -> str:
    return f"entry {first} is" if first == final else f"entries {first} to {final} are"

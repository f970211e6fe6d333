"""Engine + version -> the flags that version takes, as recorded.

`flags/ENGINE-VERSION.txt` holds one flag a line: from the engine's own help, or from its wheel's source by
`scripts/extract-flags`. A version that nobody recorded is judged by its nearest older neighbour, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from upright.facts.catalog import recordings
from upright.facts.catalog.loader import OURS

FOLDER = OURS / "flags"


@dataclass(frozen=True)
class RecordedFlags:
    """What one recorded version takes."""

    engine: str
    version: str
    flags: frozenset[str]

    def __contains__(self, flag: object) -> bool:
        return flag in self.flags


def recorded_versions(engine: str) -> tuple[str, ...]:
    """Oldest first."""
    return recordings.recorded_versions(FOLDER, engine)


def recorded_flags(engine: str, version: str) -> RecordedFlags | None:
    """Exactly this version; None if nobody recorded it."""
    return _read(engine, version) if version in recorded_versions(engine) else None


def versions_taking(engine: str, flag: str) -> tuple[str, ...]:
    """Recorded versions that take the flag, oldest first."""
    return tuple(version for version in recorded_versions(engine) if flag in _read(engine, version))


def nearest_flags(engine: str, version: str | None) -> RecordedFlags | None:
    """This version, or the newest recorded that is not newer, or else the oldest; for None the newest of all."""
    nearest = recordings.nearest_version(FOLDER, engine, version)
    return _read(engine, nearest) if nearest is not None else None


@cache
def _read(engine: str, version: str) -> RecordedFlags:
    text = (FOLDER / f"{engine}-{version}.txt").read_text(encoding="utf-8")
    return RecordedFlags(engine, version, frozenset(text.split()))

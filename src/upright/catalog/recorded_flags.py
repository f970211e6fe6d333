"""Engine + version -> the flags that version takes, as recorded.

`flags/ENGINE-VERSION.txt` holds one flag a line: from the engine's own help, or from its wheel's source by
`scripts/extract-flags`. A version that nobody recorded is judged by its nearest older neighbour, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from upright.catalog import versions
from upright.catalog.loader import OURS

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
    prefix = f"{engine}-"
    found = [path.stem.removeprefix(prefix) for path in FOLDER.glob(f"{prefix}*.txt")]
    return tuple(sorted(found, key=_order))


def recorded_flags(engine: str, version: str) -> RecordedFlags | None:
    """Exactly this version; None if nobody recorded it."""
    return _read(engine, version) if version in recorded_versions(engine) else None


def versions_taking(engine: str, flag: str) -> tuple[str, ...]:
    """Recorded versions that take the flag, oldest first."""
    return tuple(version for version in recorded_versions(engine) if flag in _read(engine, version))


def nearest_flags(engine: str, version: str | None) -> RecordedFlags | None:
    """This version, or the newest recorded that is not newer, or else the oldest; for None the newest of all."""
    known = recorded_versions(engine)
    if not known:
        return None
    if version is None or version in known:
        return _read(engine, version or known[-1])
    ours = _order(version)
    older = [each for each in known if _order(each) <= ours]
    return _read(engine, older[-1] if older else known[0])


@cache
def _read(engine: str, version: str) -> RecordedFlags:
    text = (FOLDER / f"{engine}-{version}.txt").read_text(encoding="utf-8")
    return RecordedFlags(engine, version, frozenset(text.split()))


def _order(version: str) -> versions.Version:
    """Commits and what does not look like a version stand first: they cannot be compared."""
    try:
        return versions.parse(version.split()[0])
    except (ValueError, IndexError):
        return ((0,), 0)

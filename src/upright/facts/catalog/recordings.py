"""Recorded versions of an engine, in a folder of `ENGINE-VERSION.txt`, and the nearest to another."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from upright.facts.catalog import versions


def recorded_versions(folder: Path, engine: str) -> tuple[str, ...]:
    """Oldest first."""
    return _listed_versions(folder, engine, folder.stat().st_mtime_ns)


@cache
def _listed_versions(folder: Path, engine: str, _changed_ns: int) -> tuple[str, ...]:
    """Listed again when a recording was added or taken away: a plan asks thousands of times."""
    prefix = f"{engine}-"
    version_names = [path.stem.removeprefix(prefix) for path in folder.glob(f"{prefix}*.txt")]
    return tuple(sorted(version_names, key=_order))


def nearest_version(folder: Path, engine: str, version: str | None) -> str | None:
    """This version, or the newest recorded that is not newer, or else the oldest; for None the newest of all."""
    known = recorded_versions(folder, engine)
    if not known:
        return None
    if version is None or version in known:
        return version or known[-1]
    ours = _order(version)
    older = [candidate for candidate in known if _order(candidate) <= ours]
    return older[-1] if older else known[0]


def _order(version: str) -> versions.Version:
    """Commits and what does not look like a version stand first: they cannot be compared."""
    try:
        return versions.parse(version.split()[0])
    except (ValueError, IndexError):
        return ((0,), 0)

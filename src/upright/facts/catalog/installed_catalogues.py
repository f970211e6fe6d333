"""Installed versions of catalogues of others: their files of rows.

HOME/catalogues/taken/NAME.json     the versions that were taken, the present one last; replaced atomically
HOME/catalogues/NAME/VERSION-…/     KIND.json, as the signed head named it; never changed
Whoever writes them is `sharing`; here they are only read, and cost one look where there are none.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from upright.base.bounds.files import file_bytes
from upright.base.errors import CatalogError
from upright.base.home import home


class TakenVersion(NamedTuple):
    """The present version of one catalogue."""

    name: str
    version: int
    folder: Path

    @property
    def label(self) -> str:
        return f"catalogue {self.name} version {self.version}"


def catalogues_folder() -> Path:
    return home() / "catalogues"


def taken_versions() -> tuple[TakenVersion, ...]:
    """By name."""
    folder = f"{catalogues_folder()}/taken"
    try:
        # Asked for each row of a plan: the folder's time changes whenever one of its files is replaced.
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116
    except OSError:
        return ()
    return _taken(folder, changed)


def taken_at(folder: Path) -> TakenVersion | None:
    return next((taken for taken in taken_versions() if taken.folder == folder), None)


@cache
def _taken(folder: str, _changed: int) -> tuple[TakenVersion, ...]:
    present = (_present(path) for path in sorted(Path(folder).glob("*.json")))
    return tuple(version for version in present if version is not None)


def _present(path: Path) -> TakenVersion | None:
    from upright.base.bounds.bounded_json import parse_json

    try:
        versions: list[dict[str, Any]] = parse_json(file_bytes(path))["versions"]
        if not versions:
            return None
        last = versions[-1]
        folder = Path(folder_of(path.stem, int(last["version"]), str(last["sha256"])))
        return TakenVersion(path.stem, int(last["version"]), folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CatalogError(
            f"{path} cannot be read", hint=f"remove it: the rows of {path.stem} are left out then"
        ) from None


def folder_of(name: str, version: int, sha256: str) -> str:
    """Where the rows of one version lie; by its head's hash, so that two of one number never share a place."""
    return f"{catalogues_folder()}/{name}/{version}-{sha256[:16]}"


def labelled(content: dict[str, Any], label: str) -> dict[str, Any]:
    """The row with its catalogue named wherever a source is shown."""
    sources = content.get("sources")
    row = {name: _labelled(part, label) for name, part in content.items()}
    return {**row, "sources": [f"row from {label}", *(sources if isinstance(sources, list) else ())]}


def _labelled(part: Any, label: str) -> Any:
    if isinstance(part, list):
        return [_labelled(inner, label) for inner in part]
    if not isinstance(part, dict):
        return part
    inside = {name: _labelled(inner, label) for name, inner in part.items()}
    if {"value", "grade", "source"} <= set(inside) and isinstance(inside["source"], str):
        return {**inside, "source": f"row from {label}: {inside['source']}"}
    return inside

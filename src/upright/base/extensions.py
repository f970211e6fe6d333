"""Engines of other packages, and their rows: entry points of the group `upright.engines`.

The metadata's own files are read, since `importlib.metadata` takes longer than a plan. Nothing is imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

GROUP = "upright.engines"
_METADATA = (".dist-info", ".egg-info")


class Extension(NamedTuple):
    """An engine that a package brings."""

    name: str
    """The engine's, as people type it."""
    module: str
    attribute: str
    package: str
    """Who brings it, as pip names it."""


def extensions() -> Mapping[str, Extension]:
    """By the engine's name; of two packages with one name the first on the path counts, as with any import."""
    return _on(tuple(sys.path))


def row_folders() -> tuple[str, ...]:
    """Folders of packages that bring an engine: `overheads.yaml` there holds rows of it, as in folders of ours."""
    return _rows_on(tuple(sys.path))


@cache
def _rows_on(path: tuple[str, ...]) -> tuple[str, ...]:
    packages = {extension.module.partition(".")[0]: None for extension in _on(path).values()}
    places = (f"{folder or '.'}/{package}" for package in packages for folder in path)
    return tuple(dict.fromkeys(place for place in places if os.path.isdir(place)))  # noqa: PTH112  pathlib is slow


@cache
def _on(path: tuple[str, ...]) -> Mapping[str, Extension]:
    brought: dict[str, Extension] = {}
    for folder in path:
        for extension in _in(folder or "."):
            brought.setdefault(extension.name, extension)
    return brought


def _in(folder: str) -> Iterator[Extension]:
    try:
        entries = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(_METADATA))
    except OSError:
        return
    for entry in entries:
        try:
            with open(f"{folder}/{entry}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123  pathlib is slow
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if f"[{GROUP}]" in text:
            yield from _entries(text, entry.partition("-")[0])


def _entries(text: str, package: str) -> Iterator[Extension]:
    inside = False
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
            continue
        name, equals, target = (part.strip() for part in line.partition("="))
        module, _, attribute = target.partition(":")
        if inside and equals and not line.startswith("#"):
            yield Extension(name, module, attribute or "ENGINE", package)

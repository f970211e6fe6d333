"""A repository's name -> where its weights are on this disk, if all of them are."""

from __future__ import annotations

from pathlib import Path

from upright.base.errors import ReadError
from upright.models.reading.cache import snapshot
from upright.models.reading.places import LocalDirectory
from upright.models.reading.selection import choose
from upright.models.reading.source import named_artifact


def find_weights(source: str, revision: str | None = None) -> Path | None:
    """What an engine is told; without a revision that of the source, or of `main` as it was fetched last."""
    named = named_artifact(source)
    if named is None or (folder := snapshot(named.repo, revision or named.revision)) is None:
        return None
    try:
        choice = choose(LocalDirectory(folder).names(), named.quant, named.repo)
    except ReadError:  # not all of its parts are here
        return None
    return folder / choice.engine_name

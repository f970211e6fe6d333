"""Fetches a model's files to this disk, verified, under the names that engines take; finds those that are here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from upright.base import units
from upright.base.bounds.files import open_file
from upright.base.errors import FetchError, ReadError
from upright.facts.records.base import Part
from upright.models.reading.cache import snapshot
from upright.models.reading.hub import Hub, ListedFile, Traffic
from upright.models.reading.places import LocalDirectory
from upright.models.reading.selection import choose
from upright.models.reading.source import parse_hub_reference
from upright.serving.fetch.download import Download, file_hash
from upright.serving.fetch.need import FetchNeed, FetchSurvey, survey
from upright.serving.fetch.progress import FetchProgress

CONNECTIONS = 8
_PATIENCE = 12
"""Failures in a row before a fetch gives up: about three minutes, a router's restart."""
_PIECE_BYTES = 4 << 20


class Fetched(Part):
    """What a fetch brought."""

    need: FetchNeed
    """What was to be fetched, and what of it was here before."""
    received_bytes: int
    """What came over the wire, listings included."""
    seconds: float
    """How long it took."""
    retries: int
    """Exchanges that had to be repeated."""
    refetched_files: int
    """Files that came, or were found, with wrong bytes and were fetched again."""
    unverified: tuple[str, ...]
    """Files whose hash the hub does not tell; only their length was compared."""

    @property
    def path(self) -> str:
        """What an engine is told."""
        return self.need.path


def fetch(
    source: str,
    *,
    revision: str | None = None,
    folder: Path | None = None,
    hub: Hub | None = None,
    connections: int = CONNECTIONS,
    verify: bool = False,
    on_progress: Callable[[FetchProgress], None] | None = None,
) -> Fetched:
    """Fetch what is missing; safe to interrupt at any moment, and safe to call again.

    `revision` is the commit to take, whatever the source's branch is now. `verify` also hashes what the cache has.
    """
    started, traffic = time.monotonic(), Traffic()
    patient = replace(hub or Hub.of_this_machine(), patience=_PATIENCE)
    surveyed = survey(source, revision, folder, patient, traffic)
    try:
        refuse_without_space(surveyed.need)
        refetched = _bring(surveyed, traffic, connections, verify, on_progress or _nobody)
    finally:
        surveyed.repository.close()
    return Fetched(
        need=surveyed.need,
        received_bytes=traffic.bytes_received,
        seconds=round(time.monotonic() - started, 3),
        retries=traffic.retries,
        refetched_files=refetched,
        unverified=tuple(file.name for file in surveyed.need.files if file.hash is None),
    )


def refuse_without_space(need: FetchNeed) -> None:
    room = need.room
    if not room.lacking_bytes:
        return
    other = next(iter(room.elsewhere), None)
    where = (
        f"{other.folder} has {units.format_size(other.free_bytes)} free: name it with -o, or set HF_HOME"
        if other
        else None
    )
    raise FetchError(
        f"{need.source} needs {units.format_size(room.needed_bytes)} and {room.folder} has "
        f"{units.format_size(room.free_bytes)}: "
        f"{units.format_size(room.lacking_bytes)} are missing",
        hint=where or "make room, or set HF_HOME to a larger disk",
    )


def _bring(
    surveyed: FetchSurvey,
    traffic: Traffic,
    connections: int,
    verify: bool,
    on_progress: Callable[[FetchProgress], None],
) -> int:
    """Fill the need; how many files had to be fetched again."""
    layout = surveyed.layout
    whole = [file for file in surveyed.listed if layout.whole(file)]
    with layout.alone(f"upright-{layout.key(surveyed.listed[-1])}", surveyed.need.source):
        for file in whole:
            layout.place(file)
        wrong = _wrong(surveyed, whole) if verify or layout.blobs is None else []
        for file in wrong:
            layout.forget(file)
        kept = [file for file in whole if file not in wrong]
        missing = {layout.key(file): file for file in surveyed.listed if file not in kept}
        download = Download(surveyed.repository, layout, list(missing.values()), traffic, connections)
        download.run(on_progress, sum(file.size_bytes for file in kept), len(kept))
        for file in surveyed.listed:  # two names of one content came once
            layout.place(file)
        layout.name_revision()
    if layout.blobs is None:
        _tidy(layout.parts)
    return download.refetched_files + len(wrong)


def _wrong(surveyed: FetchSurvey, files: list[ListedFile]) -> list[ListedFile]:
    """Files whose bytes are not what the hub says."""
    return [
        file
        for file in files
        if (file.sha256 or file.git_id) not in (None, file_hash(file, _pieces(surveyed.layout.folder / file.name)))
    ]


def _pieces(path: Path) -> Iterator[bytes]:
    with open_file(path) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _tidy(folder: Path) -> None:
    """The folder of unfinished files, if nothing unfinished is left in it."""
    for lock in folder.glob("*.lock"):
        lock.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _nobody(progress: FetchProgress) -> None:
    """The progress of a caller who does not ask."""


def find_weights(source: str, revision: str | None = None) -> Path | None:
    """What an engine is told; without a revision that of the source, or of `main` as it was fetched last."""
    named = parse_hub_reference(source)
    if named is None or (folder := snapshot(named.repo, revision or named.revision)) is None:
        return None
    try:
        choice = choose(LocalDirectory(folder).names(), named.quant, named.repo)
    except ReadError:  # not all of its parts are here
        return None
    return folder / choice.engine_name

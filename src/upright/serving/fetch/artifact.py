"""MODEL -> its files on this disk, verified, under the names that engines take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from upright.base import units
from upright.base.errors import FetchError
from upright.facts.records.base import Part
from upright.models.reading.hub import Hub, ListedFile, Traffic
from upright.serving.fetch.download import Download, file_hash
from upright.serving.fetch.need import Need, Surveyed, survey
from upright.serving.fetch.progress import FetchProgress

CONNECTIONS = 8
_PATIENCE = 12
"""Failures in a row before a fetch gives up: about three minutes, a router's restart."""
_PIECE_BYTES = 4 << 20


class Fetched(Part):
    """What a fetch brought."""

    need: Need
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
        refuse_without_room(surveyed.need)
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


def refuse_without_room(need: Need) -> None:
    room = need.room
    if not room.lacking_bytes:
        return
    other = next(iter(room.elsewhere), None)
    where = (
        f"{other.folder} has {units.size(other.free_bytes)} free: name it with -o, or set HF_HOME" if other else None
    )
    raise FetchError(
        f"{need.source} needs {units.size(room.needed_bytes)} and {room.folder} has {units.size(room.free_bytes)}: "
        f"{units.size(room.lacking_bytes)} are missing",
        hint=where or "make room, or set HF_HOME to a larger disk",
    )


def _bring(
    surveyed: Surveyed, traffic: Traffic, connections: int, verify: bool, on_progress: Callable[[FetchProgress], None]
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


def _wrong(surveyed: Surveyed, files: list[ListedFile]) -> list[ListedFile]:
    """Files whose bytes are not what the hub says."""
    return [
        file
        for file in files
        if (file.sha256 or file.git_id) not in (None, file_hash(file, _pieces(surveyed.layout.folder / file.name)))
    ]


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
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

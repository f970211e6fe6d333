"""A bundle -> its records, evidence and logs, each held against its digest; nothing is ever written to the disk.

A bundle comes from somebody else: names, sizes, links and what unpacks to more than it says are refused.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self

from pydantic import ValidationError

from upright.base.bounds.bounded_json import parse_json, values_in
from upright.base.bounds.files import open_file
from upright.base.errors import RecordError
from upright.base.units import format_size
from upright.evidence.bundle.manifest import NAME, PLAIN_NAME, Manifest
from upright.facts.records.base import Record
from upright.facts.records.evidence import Observation
from upright.facts.records.loading import load
from upright.facts.store import DeploymentDir
from upright.facts.store.journal import lines

_MOST_FILES = 1000
_MOST_BYTES = 512 << 20
_MOST_LISTED = 50_000
"""Values of the manifest."""
_MOST_VALUES = 4_000_000
"""Of all records and lines of evidence together: they are in memory at once."""


@dataclass(frozen=True)
class Unpacked:
    """A bundle that was read and found whole."""

    manifest: Manifest
    records: dict[str, Record]
    """File name -> the record in it."""
    observations: tuple[Observation, ...]
    """The evidence, in order."""
    texts: dict[str, str]
    """File name -> its text, such as engine.log."""


class _PlainHead(tarfile.TarInfo):
    """A head of the archive. One that brings another, such as that of a long name, is refused before it is read on."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise tarfile.ReadError(f"{_printable(entry.name)} is no plain file")
        return entry


def read_bundle(path: Path) -> Unpacked:
    try:
        with open_file(path) as file, tarfile.open(fileobj=file, mode="r|gz", tarinfo=_PlainHead) as archive:
            files = _files(archive, path)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise RecordError(f"{path} is no bundle: {error}") from None
    manifest = _manifest(files, path)
    records, observations, texts = {}, tuple[Observation, ...](), {}
    for about in manifest.files:
        content = files[about.name]
        if about.kind == "record":
            records[about.name] = load(content, where=f"{path}: {about.name}")
        elif about.kind == "evidence":
            observations = _observations(content)
        else:
            texts[about.name] = content.decode("utf-8", "replace")
    return Unpacked(manifest, records, observations, texts)


def _files(archive: tarfile.TarFile, path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = _MOST_BYTES
    for entry in archive:
        if not PLAIN_NAME.fullmatch(entry.name) or entry.name in files:
            raise RecordError(f"{path} is refused: {_printable(entry.name)} is no plain file of a bundle")
        left -= entry.size
        if left < 0 or len(files) >= _MOST_FILES:
            raise RecordError(
                f"{path} is refused: it unpacks to more than {format_size(_MOST_BYTES)} or {_MOST_FILES} files"
            )
        content = archive.extractfile(entry)
        files[entry.name] = _read(content, entry.size)
    return files


def _read(content: IO[bytes] | None, length: int) -> bytes:
    payload = content.read(length) if content is not None else b""
    if len(payload) != length:
        raise EOFError("it is cut short")
    return payload


def _manifest(files: dict[str, bytes], path: Path) -> Manifest:
    try:
        manifest = Manifest.model_validate(parse_json(files.pop(NAME), _MOST_LISTED))
    except (KeyError, ValueError, ValidationError, RecursionError):
        raise RecordError(f"{path} is no bundle: it has no manifest that this version reads") from None
    if [about.name for about in manifest.files] != list(files):
        raise RecordError(f"{path} is refused: it holds other files than its manifest says")
    for about in manifest.files:
        content = files[about.name]
        if (len(content), hashlib.sha256(content).hexdigest()) != (about.size_bytes, about.sha256):
            raise RecordError(f"{path} is refused: {about.name} was changed after it was packed")
    left = _MOST_VALUES
    for about in manifest.files:
        left -= values_in(files[about.name].decode("utf-8", "replace"), left) if about.kind != "text" else 0
        if left < 0:
            raise RecordError(f"{path} is refused: it holds more than {_MOST_VALUES:,} values")
    return manifest


def _observations(content: bytes) -> tuple[Observation, ...]:
    """Through the store's own reader, which holds each line against the one before."""
    with TemporaryDirectory() as folder:
        directory = DeploymentDir(Path(folder))
        directory.evidence_file.write_bytes(content)
        for _ in lines(directory.evidence_file):
            pass
        return tuple(directory.observations())


def _printable(name: str) -> str:
    return repr(name[:80])

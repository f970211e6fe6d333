"""A deployment's directory -> a bundle: records, evidence and logs, redacted, and packed the same way every time.

Redaction changes a record's digest, and then those that were made from it: all are written anew in the order of the
line, and the manifest says which was which. Evidence is chained anew for the same reason.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upright import __version__
from upright.base.bounds.files import file_bytes, open_file
from upright.base.errors import RecordError, StoreError
from upright.evidence.bundle.identities import identities_of
from upright.evidence.bundle.manifest import NAME, PLAIN_NAME, BundledFile, Manifest, Redaction, WrittenBundle
from upright.evidence.bundle.redacting import KnownIdentities, Redactor
from upright.facts.records.base import digest_of
from upright.facts.records.loading import KINDS, parse
from upright.facts.store import DeploymentDir, write_atomically
from upright.facts.store.journal import NO_DIGEST, lines, seal_line

_TEXT = frozenset({".log", ".txt", ".yaml", ".yml", ".csv", ".jsonl"})
_HEAD_BYTES, _TAIL_BYTES = 256 << 10, 1 << 20
_LONGEST_RECORD_BYTES = 16 << 20
_EVIDENCE = "evidence.jsonl"


@dataclass
class _Contents:
    """What goes into the archive, as it is gathered."""

    redactor: Redactor
    files: dict[str, tuple[BundledFile, bytes]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, kind: Any, content: bytes, original_bytes: int) -> None:
        about = BundledFile(
            name=name,
            kind=kind,
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            original_bytes=original_bytes,
        )
        self.files[name] = (about, content)


def bundle(directory: DeploymentDir, path: Path) -> WrittenBundle:
    """Writes the archive; what it holds is told in the answer and in its own manifest."""
    manifest, archive = bundle_contents(directory)
    path = path.expanduser().absolute()
    write_atomically(path, archive, mode=0o600)
    return WrittenBundle(
        path=str(path), size_bytes=len(archive), sha256=hashlib.sha256(archive).hexdigest(), manifest=manifest
    )


def bundle_contents(directory: DeploymentDir, known: KnownIdentities | None = None) -> tuple[Manifest, bytes]:
    known = known or identities_of(directory)
    contents = _Contents(Redactor(known))
    for file in _records_first(directory.path):
        _take(contents, directory.path, file)
    manifest = Manifest(
        upright=__version__,
        deployment=contents.redactor.text(directory.name),
        files=tuple(about for about, _ in contents.files.values()),
        redactions=tuple(Redaction(what=what, times=times) for what, times in sorted(contents.redactor.times.items())),
        digests=contents.digests,
        left_out=tuple(sorted(contents.left_out)),
    )
    first = (json.dumps(manifest.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()
    plain = {NAME: first, **{name: content for name, (_, content) in contents.files.items()}}
    _refuse_leaks(plain, known)
    return manifest, _archive(plain)


def _records_first(folder: Path) -> list[Path]:
    """Records in the order of the line, since a later one names the digest of an earlier one; then the rest by name."""
    order = {kind: number for number, kind in enumerate(KINDS)}

    def place(path: Path) -> tuple[int, str]:
        kind = path.stem.rstrip("0123456789").rstrip("-")
        return (order.get(kind, len(order)) if path.suffix == ".json" else len(order) + 1, str(path))

    paths = [path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file() and not path.is_symlink()]
    return sorted(paths, key=place)


def _take(contents: _Contents, folder: Path, path: Path) -> None:
    name = path.relative_to(folder).as_posix()
    if PLAIN_NAME.fullmatch(f"{name}.txt") is None:
        contents.left_out += [] if path.name.startswith(".") else [name]
    elif path.suffix == ".json" and path.stat().st_size <= _LONGEST_RECORD_BYTES:
        try:
            contents.add(name, "record", _record(contents, path), path.stat().st_size)
        except RecordError:
            contents.add(f"{name}.txt", "text", _text(contents, path), path.stat().st_size)
    elif name == _EVIDENCE:
        try:
            contents.add(name, "evidence", b"".join(_evidence(contents, path)), path.stat().st_size)
        except RecordError:
            contents.add(f"{name}.txt", "text", _text(contents, path), path.stat().st_size)
    elif path.suffix in _TEXT or ".log." in path.name:
        contents.add(name, "text", _text(contents, path), path.stat().st_size)
    elif not path.name.startswith("."):  # a file that only holds space on the disk is nobody's
        contents.left_out.append(name)


def _record(contents: _Contents, path: Path) -> bytes:
    record_fields = parse(file_bytes(path, own=True), where=path.name)
    if record_fields.get("record") not in KINDS:
        raise RecordError(f"{path.name} is no record")
    before = f"{record_fields['record']}:{record_fields.get('digest') or digest_of(record_fields)}"
    parents = [contents.digests.get(parent, parent) for parent in record_fields.get("made_from") or ()]
    told = {**contents.redactor.data({**record_fields, "made_from": []}), "made_from": parents}
    told["digest"] = digest_of(told)
    after = f"{record_fields['record']}:{told['digest']}"
    if after != before:
        contents.digests[before] = after
    ordered = {name: told[name] for name in ("record", "schema", "digest") if name in told}
    return (json.dumps({**ordered, **told}, indent=2, ensure_ascii=False) + "\n").encode()


def _evidence(contents: _Contents, path: Path) -> Iterator[bytes]:
    previous = NO_DIGEST
    for line in lines(path):
        raw, previous = seal_line(line.seq, previous, line.kind, line.schema, contents.redactor.data(line.content))
        yield raw


def _text(contents: _Contents, path: Path) -> bytes:
    """The beginning and the end of what is long, cut at line ends so that no key is halved."""
    size = path.stat().st_size
    with open_file(path, own=True) as file:
        if size <= _HEAD_BYTES + _TAIL_BYTES:
            pieces = [file.read()]
        else:
            first = file.read(_HEAD_BYTES)
            file.seek(size - _TAIL_BYTES)
            last = file.read(_TAIL_BYTES)
            first, last = first[: first.rfind(b"\n") + 1], last[last.find(b"\n") + 1 :]
            left = size - len(first) - len(last)
            pieces = [first, f"[upright: {left:,} bytes left out here]\n".encode(), last]
    return contents.redactor.text(b"".join(pieces).decode("utf-8", "backslashreplace")).encode()


def _refuse_leaks(plain: dict[str, bytes], known: KnownIdentities) -> None:
    """The last look: none of the secrets that are known is in what would be sent."""
    for name, content in plain.items():
        for secret, what in known.secrets.items():
            if len(secret) >= 6 and secret.encode() in content:
                raise StoreError(f"{name} still holds {what}; nothing was written", hint="this is a bug: tell us of it")


def _archive(plain: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0, compresslevel=6) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in plain.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, 0
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()

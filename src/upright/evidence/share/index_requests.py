"""Requests to several indexes at once, and the commands of an index's keeper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError, UsageError
from upright.base.progress import utc_now
from upright.base.untrusted_text import on_one_line
from upright.evidence.share.checks import Verification
from upright.evidence.share.index_building import BuiltIndex, build_index, read_pointers
from upright.evidence.share.index_reading import (
    IndexedPointers,
    PinnedIndex,
    ReadTotals,
    fetch_bundle,
    pin,
    pinned,
    search,
)
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.pointers import Pointer, pointer_to, shard_key
from upright.evidence.share.seen_pointers import SeenPointer, seen_in, seen_pointers
from upright.evidence.share.signing import fingerprints, signature_path
from upright.facts import catalog
from upright.facts.records.base import canonical

_SHORTEST = 12
"""Digits of an identity that are enough: fewer are found by chance, or on purpose."""


@dataclass(frozen=True)
class IndexAnswers:
    """What the indexes answered, and why some did not."""

    indexed: tuple[IndexedPointers, ...]
    faults: tuple[str, ...]


def search_indexes(
    model: str | None, gpu: str | None, gpus: int | None, name: str | None, *, offline: bool
) -> IndexAnswers:  # fmt: skip
    """One that is broken does not silence the others; if all are, the first says why.

    Without a box, what is here already is shown of every box; without a model, of every model."""
    indexes = [index for index in pinned() if name in (None, index.name)]
    if not indexes:
        raise UsageError(f"no index named {name}", hint="upright share index add NAME URL --key FILE")
    answers, faults = [], []
    model, gpu = _model_named(model) if model else None, _gpu_named(gpu) if gpu else None
    anywhere = gpu is None and gpus is None
    for index in indexes:
        try:
            answer = None
            if model is not None:
                number = gpus if gpus is not None else int(gpu is not None)
                answer = search(index, model, gpu, number, offline=offline and bool(index.keys))
            answers.append(_with_seen(index, model, answer) if anywhere or answer is None else answer)
        except (RecordError, UsageError) as error:
            faults.append(error)
    if not answers:
        raise faults[0]
    return IndexAnswers(tuple(answers), tuple(on_one_line(fault.message) for fault in faults))


def _model_named(model: str) -> str:
    """The catalogue's row, if it knows the name: pointers go by that."""
    row = catalog.find_model(model)
    return row.id if row else model


def _gpu_named(gpu: str) -> str:
    row = catalog.find_gpu(gpu) or catalog.find("gpus", gpu)
    return row.id if row else gpu


def _with_seen(index: PinnedIndex, model: str | None, answer: IndexedPointers | None) -> IndexedPointers:
    """The answer, and what is here already of this model on other boxes."""
    pointers = answer.pointers if answer else ()
    shown = {pointer.identity for pointer in pointers}
    wanted = shard_key(model, None, 0).partition("/")[0] if model else None
    seen = [
        pointer
        for pointer in seen_in(index)
        if pointer.identity not in shown and wanted in (None, pointer.key.partition("/")[0])
    ]
    if answer is None:
        return IndexedPointers(index, 0, "", tuple(seen), 0, ReadTotals(offline=True))
    return replace(answer, pointers=(*pointers, *seen))


def known_bundle(identity: str) -> SeenPointer:
    """The one bundle that was searched here and begins so; where one index revoked it, it is revoked."""
    beginning = identity.lower()
    if len(beginning) < _SHORTEST or not set(beginning) <= set("0123456789abcdef"):
        raise UsageError(f"{on_one_line(identity, 80)} is too short, or no identity", hint=f"{_SHORTEST} digits")
    seen = seen_pointers(beginning)
    if not seen:
        raise UsageError(f"no bundle {identity} was searched here", hint="upright share index search MODEL")
    if len({entry.pointer.identity for entry in seen}) > 1:
        raise UsageError(f"several bundles begin with {identity}", hint="all 64 digits name one")
    return next((entry for entry in seen if entry.pointer.revoked), seen[0])


def fetch_known_bundle(identity: str) -> tuple[Path, Verification]:
    seen = known_bundle(identity)
    pointer = seen.pointer
    if pointer.revoked:
        raise RecordError(f"{pointer.identity[:12]} is revoked: {pointer.revoked}")
    content, signature = fetch_bundle(seen.index, pointer)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "fetched.bundle.json"
        file.write_bytes(content)
        if signature is not None:
            signature_path(file).write_bytes(signature)
        opened = open_bundle(file)
    if opened.verification.level != "broken":
        _refuse_unlike(pointer, pointer_to(opened, pointer.url))
    path = Path(f"{pointer.identity[:12]}.bundle.json").absolute()
    _place(path, content, signature)
    return path, opened.verification


def _refuse_unlike(told: Pointer, kept: Pointer) -> None:
    """What the index says of a bundle must be what the bundle says."""
    names = ("model", "gpu", "gpus", "engine", "engine_version", "tokens_per_second", "signer")
    wrong = [name for name in names if getattr(told, name) != getattr(kept, name)]
    if wrong:
        raise RecordError(f"{told.identity[:12]} is refused: its {', '.join(wrong)} is not what the index says")


def _place(path: Path, content: bytes, signature: bytes | None) -> None:
    """Over no file that is there, and beside no signature of another."""
    files = {path: content, signature_path(path): signature}
    missing = {file: wanted for file, wanted in files.items() if wanted is not None and not _holds(file, wanted)}
    for file in files if path in missing else missing:
        if os.path.lexists(file) and (file in missing or signature is None):
            raise UsageError(f"{file} is there already, and is another", hint="move it, and fetch again")
    for file, wanted in missing.items():
        try:
            with file.open("xb") as stream:
                stream.write(wanted)
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from None


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and file_bytes(path) == content


def pin_named_index(name: str, url: str, key: Path | None, *, learn: bool = False) -> PinnedIndex:
    place = url.rstrip("/") if "://" in url else str(Path(url).expanduser().absolute())
    index = PinnedIndex(name=name, url=place, keys=tuple(sorted(fingerprints(key))) if key else (), learn=learn)
    pin(index)
    return index


def make_pointer(bundle: Path, url: str) -> tuple[Pointer, str]:
    """The pointer, and the line of it that a keeper takes."""
    pointer = pointer_to(open_bundle(bundle), url)
    return pointer, canonical(pointer.model_dump(mode="json", exclude_none=True)).decode()


def build_from_files(folder: Path, files: Sequence[Path], key: Path | None, revoke: dict[str, str]) -> BuiltIndex:
    if not files and not revoke:
        raise UsageError("nothing to build", hint="name files of pointers, or --revoke IDENTITY")
    return build_index(folder, read_pointers(files), key=key, at=utc_now(), revoke=revoke)

"""What a person asks of indexes -> their answers: several indexes at once, and the keeper's verbs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from upright.errors import RecordError, UsageError
from upright.progress import utc_now
from upright.records.base import canonical
from upright.sharing.checks import Verification
from upright.sharing.index_building import Built, build_index, read_pointers
from upright.sharing.index_reading import Indexed, PinnedIndex, fetch_bundle, pin, pinned, search, seen_pointer
from upright.sharing.opening import open_bundle
from upright.sharing.pointers import Pointer, pointer_to
from upright.sharing.signing import fingerprints
from upright.store import write_atomically


def asked(model: str, gpu: str | None, gpus: int, name: str | None, *, offline: bool) -> tuple[Indexed, ...]:
    indexes = [index for index in pinned() if name in (None, index.name)]
    if not indexes:
        raise UsageError(f"no index named {name}", hint="upright index add NAME URL --key FILE")
    answers, faults = [], []
    for index in indexes:
        try:
            answers.append(search(index, model, gpu, gpus, offline=offline and bool(index.keys)))
        except (RecordError, UsageError) as error:
            if len(indexes) == 1:
                raise
            faults.append(error)
    if faults:
        raise faults[0]
    return tuple(answers)


def known(identity: str) -> Pointer:
    pointer = seen_pointer(identity.lower())
    if pointer is None:
        raise UsageError(f"no bundle {identity} was searched here", hint="upright index search MODEL")
    return pointer


def brought(identity: str) -> tuple[Path, Verification]:
    pointer = known(identity)
    if pointer.revoked:
        raise RecordError(f"{pointer.identity[:12]} is revoked: {pointer.revoked}")
    path = Path(f"{pointer.identity[:12]}.bundle.json").absolute()
    write_atomically(path, fetch_bundle(pointer))
    return path, open_bundle(path).verification


def pinned_to(name: str, url: str, key: Path | None) -> PinnedIndex:
    place = url.rstrip("/") if "://" in url else str(Path(url).expanduser().absolute())
    index = PinnedIndex(name=name, url=place, keys=tuple(sorted(fingerprints(key))) if key else ())
    pin(index)
    return index


def pointed(bundle: Path, url: str) -> tuple[Pointer, str]:
    """The pointer, and the line of it that a keeper takes."""
    pointer = pointer_to(open_bundle(bundle), url)
    return pointer, canonical(pointer.model_dump(mode="json", exclude_none=True)).decode()


def built(folder: Path, files: Sequence[Path], key: Path | None, revoke: dict[str, str]) -> Built:
    if not files and not revoke:
        raise UsageError("nothing to build", hint="name files of pointers, or --revoke IDENTITY")
    return build_index(folder, read_pointers(files), key=key, at=utc_now(), revoke=revoke)

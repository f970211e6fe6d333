"""A pinned catalogue's rows: one signed head, then files held against its hashes.

head.json            {"signed": {name, version, at, kinds}, "signature": SSH signature of the canonical "signed"}
rows/SHA256.json     the rows of one kind; named by their hash and never changed
What was read is kept, so that it can be taken without a network; a version that was seen is never gone below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from upright.base.bounds.bounded_json import parse_json, parse_peer_json
from upright.base.bounds.errors import ExceededError
from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError, UsageError
from upright.base.home import make_private
from upright.evidence.share.catalogue_gate import MOST_ROWS
from upright.evidence.share.index_head import HEAD, MOST_HEAD_BYTES, refuse_wrong_hash
from upright.evidence.share.index_reading import ReadTotals, index_bytes, read_from
from upright.evidence.share.pointers import Digest
from upright.evidence.share.seals import unsealed
from upright.evidence.share.signing import CATALOGUES, fingerprints
from upright.facts.catalog.installed_catalogues import catalogues_folder
from upright.facts.records.base import Part, canonical
from upright.facts.store import write_atomically

MOST_KIND_BYTES = 4 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,38}")
_PINS = "pinned.json"


class KindFile(Part):
    """The rows of one kind."""

    sha256: Digest
    """Its name and its hash."""
    bytes: Annotated[int, Field(gt=0, le=MOST_KIND_BYTES)]
    """Its length: no more is read."""
    rows: Annotated[int, Field(ge=0, le=MOST_ROWS)]
    """How many it holds."""


class CatalogueHead(Part):
    """What the keeper of a catalogue signs."""

    format: Literal[1] = 1
    """Of the catalogue."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,38}$")]
    """What its keeper calls it: one key may sign several, and none passes for another."""
    version: Annotated[int, Field(gt=0, lt=1 << 53)]
    """One more with each build; a reader takes no lower one from a mirror."""
    at: Annotated[str, Field(max_length=40)]
    """When it was built (UTC, ISO 8601)."""
    kinds: Annotated[dict[str, KindFile], Field(max_length=64)]
    """Kind -> the file of its rows."""


class PinnedCatalogue(Part):
    """A catalogue that this person reads, and whose keys they trust."""

    name: str
    """What they call it."""
    url: str
    """Where it lies: http(s), or a folder."""
    keys: tuple[str, ...]
    """Fingerprints; never empty: nothing is taken unsigned."""

    @property
    def folder(self) -> Path:
        return catalogues_folder() / self.name


def pinned_catalogues() -> tuple[PinnedCatalogue, ...]:
    path = catalogues_folder() / _PINS
    try:
        return tuple(PinnedCatalogue.model_validate(entry) for entry in parse_json(file_bytes(path)))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError):
        raise RecordError(f"{path} cannot be read", hint="remove it, and add the catalogues again") from None


def pin_catalogue(name: str, url: str, key: Path) -> PinnedCatalogue:
    """What was seen of it stays seen at another address too; under another key its versions begin anew."""
    if _NAME.fullmatch(name) is None or name == "taken":
        raise UsageError(f"{name!r:.60} is no name for a catalogue", hint="small letters, digits, points and dashes")
    place = url.rstrip("/") if "://" in url else str(Path(url).expanduser().absolute())
    catalogue = PinnedCatalogue(name=name, url=place, keys=tuple(sorted(fingerprints(key))))
    kept = [entry for entry in pinned_catalogues() if entry.name != name]
    make_private(catalogues_folder())
    entries = [entry.model_dump(mode="json") for entry in (*kept, catalogue)]
    write_atomically(catalogues_folder() / _PINS, json.dumps(entries, indent=2).encode())
    return catalogue


def catalogue_named(name: str | None) -> PinnedCatalogue:
    """The one of that name; without a name the only one."""
    known = pinned_catalogues()
    named = [entry for entry in known if name in (None, entry.name)]
    if len(named) == 1:
        return named[0]
    if not known:
        raise UsageError("no catalogue was added", hint="upright catalog add NAME URL --key FILE")
    names = ", ".join(entry.name for entry in known)
    raise UsageError(f"there is no catalogue {name}" if name else "which catalogue?", hint=f"one of {names}")


def offered_head(catalogue: PinnedCatalogue, reading: ReadTotals, *, offline: bool) -> tuple[CatalogueHead, bytes]:
    """The head and its bytes, if a pinned key signed it and it is no step back."""
    trusted, kept = frozenset(catalogue.keys), catalogue.folder / HEAD
    before = _seen_head(catalogue, kept, trusted)
    if offline:
        if before is None:
            raise UsageError(f"{catalogue.name} was never read here", hint="once without --offline")
        reading.offline = True
        raw = index_bytes(kept, MOST_HEAD_BYTES)
        return _head(raw, catalogue, trusted), raw
    raw = read_from(f"{catalogue.url}/{HEAD}", MOST_HEAD_BYTES, reading)
    head = _head(raw, catalogue, trusted)
    if before is not None:
        _refuse_back(catalogue, before, head)
    make_private(kept.parent)
    write_atomically(kept, raw)
    return head, raw


def _seen_head(catalogue: PinnedCatalogue, kept: Path, trusted: frozenset[str]) -> CatalogueHead | None:
    """None if nothing was seen, or if it was signed by a key that is not pinned any more."""
    try:
        return _head(index_bytes(kept, MOST_HEAD_BYTES), catalogue, trusted)
    except RecordError:
        return None


def _head(raw: bytes, catalogue: PinnedCatalogue, trusted: frozenset[str] | None) -> CatalogueHead:
    return unsealed(raw, CatalogueHead, f"{catalogue.name}: {HEAD}", trusted, CATALOGUES, "head of a catalogue")


def _refuse_back(catalogue: PinnedCatalogue, before: CatalogueHead, head: CatalogueHead) -> None:
    if head.name != before.name:
        raise RecordError(f"{catalogue.name} is refused: it was {before.name}, and this is {head.name}")
    if head.version < before.version:
        raise RecordError(
            f"{catalogue.name} is refused: it shows version {head.version}, and {before.version} was seen before",
            hint="a mirror is late, or lies; to go back yourself: upright catalog rollback",
        )
    if head.version == before.version and canonical(head.model_dump()) != canonical(before.model_dump()):
        raise RecordError(f"{catalogue.name} is refused: two different heads are version {head.version}")


def offered_rows(
    catalogue: PinnedCatalogue, head: CatalogueHead, reading: ReadTotals, *, offline: bool
) -> Mapping[str, bytes]:  # fmt: skip
    """Kind -> its file, each what the head names; all or none."""
    if sum(file.rows for file in head.kinds.values()) > MOST_ROWS:
        raise RecordError(f"{catalogue.name} is refused: it has more than {MOST_ROWS:,} rows")
    return {kind: _file(catalogue, file, reading, offline=offline) for kind, file in head.kinds.items()}


def _file(catalogue: PinnedCatalogue, file: KindFile, reading: ReadTotals, *, offline: bool) -> bytes:
    path = f"rows/{file.sha256}.json"
    kept = catalogue.folder / path
    if kept.exists():
        try:
            return refuse_wrong_hash(index_bytes(kept, file.bytes), file.sha256, path)
        except RecordError:
            kept.unlink()
    if offline:
        raise UsageError(f"{catalogue.name}: this version was never read here", hint="once without --offline")
    content = read_from(f"{catalogue.url}/{path}", file.bytes, reading)
    refuse_wrong_hash(content, file.sha256, f"{catalogue.name}: {path}")
    make_private(kept.parent)
    write_atomically(kept, content)
    return content


def contents_of(raw: bytes, file: KindFile, where: str) -> list[Any]:
    try:
        contents = parse_peer_json(raw)
    except (ValueError, ExceededError):
        raise RecordError(f"{where} is refused: it is no JSON") from None
    if not isinstance(contents, list) or len(contents) != file.rows:
        raise RecordError(f"{where} is refused: it does not hold the {file.rows:,} rows that its head says")
    return contents

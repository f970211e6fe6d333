"""Updates of a pinned catalogue: the offer, taking it, and rolling back.

Everything is read, verified, judged and tried before it is shown; taking it is the replacement of one small file, so
that an update which is interrupted at any moment has happened or has not.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError, UsageError
from upright.base.home import make_private
from upright.evidence.share.catalogue_changes import RowChange, changes, deployments_on
from upright.evidence.share.catalogue_gate import admitted
from upright.evidence.share.catalogue_source import (
    CatalogueHead,
    PinnedCatalogue,
    catalogue_named,
    contents_of,
    offered_head,
    offered_rows,
)
from upright.evidence.share.catalogue_trial import MovedPlan, changed_plans
from upright.evidence.share.index_reading import ReadTotals
from upright.facts.catalog.installed_catalogues import TakenVersion, catalogues_folder, folder_of, taken_versions
from upright.facts.catalog.loader import rows
from upright.facts.catalog.rows.base import Row
from upright.facts.records.base import Part
from upright.facts.store import write_atomically

_KEPT_VERSIONS = 5


class TakenEntry(Part):
    """One version that was taken."""

    version: int
    """As its head says."""
    sha256: str
    """Of the head."""
    at: str
    """When it was built."""


@dataclass(frozen=True)
class CatalogueOffer:
    """The newest version of a catalogue, and what it would change here."""

    catalogue: PinnedCatalogue
    head: CatalogueHead
    sha256: str
    present: TakenVersion | None
    changes: tuple[RowChange, ...]
    deployments: tuple[str, ...]
    plans: tuple[MovedPlan, ...]
    reading: ReadTotals

    @property
    def is_taken(self) -> bool:
        """Whether exactly this is what is read now."""
        return self.present is not None and self.present.folder == self.folder

    @property
    def folder(self) -> Path:
        return Path(folder_of(self.catalogue.name, self.head.version, self.sha256))

    def told(self, *, taken: bool) -> dict[str, Any]:
        return {
            "catalogue": self.catalogue.name, "version": self.head.version, "at": self.head.at,
            "present": self.present.version if self.present else None, "taken": taken,
            "changes": [change.model_dump(mode="json") for change in self.changes],
            "deployments": list(self.deployments),
            "plans": [plan.model_dump(mode="json") for plan in self.plans],
            "files_read": self.reading.files, "bytes_read": self.reading.bytes, "offline": self.reading.offline,
        }  # fmt: skip


def offer_of(name: str | None, *, offline: bool = False) -> CatalogueOffer:
    """Read, verified, judged row by row, compared, and tried on plans. Nothing is taken."""
    catalogue, reading = catalogue_named(name), ReadTotals()
    head, raw = offered_head(catalogue, reading, offline=offline)
    files = offered_rows(catalogue, head, reading, offline=offline)
    offered = _judged(catalogue, head, files)
    _refuse_others(catalogue, offered)
    present = next((taken for taken in taken_versions() if taken.name == catalogue.name), None)
    sha256 = hashlib.sha256(raw).hexdigest()
    touched = changes(_rows_of(catalogue, present), offered)
    place = Path(folder_of(catalogue.name, head.version, sha256))
    _lay_down(place, files)
    entry = TakenEntry(version=head.version, sha256=sha256, at=head.at)
    plans = changed_plans(touched, _taken_files_with(catalogue.name, entry)) if touched else ()
    return CatalogueOffer(catalogue, head, sha256, present, touched, deployments_on(touched), plans, reading)


def take(offer: CatalogueOffer) -> None:
    """From now on its rows are read; what was read before is one word away."""
    name = offer.catalogue.name
    entry = TakenEntry(version=offer.head.version, sha256=offer.sha256, at=offer.head.at)
    kept = [known for known in _entries(name) if known.sha256 != entry.sha256]
    _write(name, [*kept, entry][-_KEPT_VERSIONS:])
    for forgotten in [*kept, entry][:-_KEPT_VERSIONS]:
        shutil.rmtree(folder_of(name, forgotten.version, forgotten.sha256), ignore_errors=True)


def roll_back(name: str | None) -> tuple[PinnedCatalogue, int, int | None]:
    """To the version before; None if there was none, and then nothing of the catalogue is read."""
    catalogue = catalogue_named(name)
    entries = _entries(catalogue.name)
    if not entries:
        raise UsageError(f"nothing of {catalogue.name} is taken", hint=f"upright catalog update {catalogue.name}")
    _write(catalogue.name, entries[:-1])
    return catalogue, entries[-1].version, entries[-2].version if len(entries) > 1 else None


def _judged(catalogue: PinnedCatalogue, head: CatalogueHead, files: Mapping[str, bytes]) -> dict[str, tuple[Row, ...]]:
    where = f"{catalogue.name} version {head.version}"
    return {kind: admitted(kind, contents_of(raw, head.kinds[kind], where), where) for kind, raw in files.items()}


def _refuse_others(catalogue: PinnedCatalogue, offered: Mapping[str, tuple[Row, ...]]) -> None:
    own = {taken.label for taken in taken_versions() if taken.name == catalogue.name}
    for kind, kind_rows in offered.items():
        known = rows(kind)
        for row in kind_rows:
            other = known.get(row.id)
            if other is not None and other.owner == "catalogue" and other.file not in own:
                raise RecordError(f"{catalogue.name} is refused: {kind}/{row.id} is a row of {other.file}")


def _rows_of(catalogue: PinnedCatalogue, present: TakenVersion | None) -> dict[str, tuple[Row, ...]]:
    """What was taken, as it was offered then."""
    if present is None:
        return {}
    where = f"{catalogue.name} version {present.version}"
    return {
        path.stem: admitted(path.stem, parse_json(file_bytes(path)), where) for path in present.folder.glob("*.json")
    }


def _lay_down(place: Path, files: Mapping[str, bytes]) -> None:
    """All files of a version, or none: beside, then renamed. Nobody reads them before they are taken."""
    if place.is_dir():
        return
    make_private(place.parent)
    beside = Path(mkdtemp(prefix=".", dir=place.parent))
    try:
        for kind, content in files.items():
            write_atomically(beside / f"{kind}.json", content)
        beside.rename(place)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        if not place.is_dir():
            raise


def _entries(name: str) -> list[TakenEntry]:
    path = catalogues_folder() / "taken" / f"{name}.json"
    try:
        return [TakenEntry.model_validate(entry) for entry in parse_json(file_bytes(path))["versions"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        raise RecordError(f"{path} cannot be read", hint="remove it, and update again") from None


def _content(entries: list[TakenEntry]) -> bytes:
    return json.dumps({"versions": [entry.model_dump(mode="json") for entry in entries]}, indent=1).encode()


def _write(name: str, entries: list[TakenEntry]) -> None:
    folder = catalogues_folder() / "taken"
    make_private(folder)
    write_atomically(folder / f"{name}.json", _content(entries))


def _taken_files_with(name: str, entry: TakenEntry) -> dict[str, bytes]:
    known = {taken.name: _content(_entries(taken.name)) for taken in taken_versions()}
    return {**known, name: _content([entry])}

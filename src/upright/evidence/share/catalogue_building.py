"""A folder of rows + a keeper's key -> a signed catalogue: static files, judged as every reader will judge them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes, file_text
from upright.base.errors import CatalogError, RecordError, UsageError
from upright.base.progress import utc_now
from upright.base.yaml12 import from_yaml
from upright.evidence.share.catalogue_gate import MOST_ROWS, admitted
from upright.evidence.share.catalogue_source import CatalogueHead, KindFile
from upright.evidence.share.index_head import HEAD
from upright.evidence.share.seals import sealed_file, unsealed
from upright.evidence.share.signing import CATALOGUES
from upright.facts.catalog.exporting import INDEX, export_files
from upright.facts.catalog.loader import KINDS
from upright.facts.records.base import Part
from upright.facts.store import write_atomically


class BuiltCatalogue(Part):
    """What a build did."""

    name: str
    """The catalogue's."""
    version: int
    """Of the head."""
    kinds: dict[str, int]
    """Kind -> its rows."""


def build_catalogue(folder: Path, source: Path, *, name: str, key: Path) -> BuiltCatalogue:
    """`source` is laid out as one's own rows: KIND.yaml, or KIND/*.yaml. The head is written last."""
    contents = {kind: rows for kind in KINDS if (rows := _contents(source, kind))}
    if not contents:
        raise UsageError(f"{source} holds no rows", hint="KIND.yaml or KIND/*.yaml: upright catalog list")
    if sum(map(len, contents.values())) > MOST_ROWS:
        raise UsageError(f"{source} holds more than {MOST_ROWS:,} rows")
    for kind, kind_rows in contents.items():
        admitted(kind, kind_rows, str(source))
    before = _before(folder)
    if before is not None and before.name != name:
        raise UsageError(f"{folder} is the catalogue {before.name}", hint=f"--name {before.name}, or another folder")
    try:
        (folder / "rows").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    files = {kind: _written(folder, kind_rows) for kind, kind_rows in contents.items()}
    version = before.version + 1 if before else 1
    head = CatalogueHead(name=name, version=version, at=utc_now(), kinds=files)
    write_atomically(folder / HEAD, sealed_file(head, key, CATALOGUES))
    return BuiltCatalogue(name=name, version=version, kinds={kind: file.rows for kind, file in files.items()})


def export_catalogue(folder: Path, version: str) -> dict[str, Any]:
    """The whole catalogue that is read here, unsigned, for any web server; its index."""
    files = export_files(version)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():  # the index comes last: whoever reads it finds what it names
            if name == INDEX or not (folder / name).exists():
                write_atomically(folder / name, content, mode=0o644)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    return dict(parse_json(files[INDEX]))


def _before(folder: Path) -> CatalogueHead | None:
    path = folder / HEAD
    if not path.exists():
        return None
    return unsealed(file_bytes(path), CatalogueHead, str(path), None, CATALOGUES, "head of a catalogue")


def _contents(source: Path, kind: str) -> list[Any]:
    places = [source / f"{kind}{ending}" for ending in (".yaml", ".json")]
    places += sorted(path for path in (source / kind).glob("*") if path.suffix in (".yaml", ".json"))
    rows: list[Any] = []
    for path in places:
        if path.is_file():
            content = _parsed(path)
            rows += content if isinstance(content, list) else [content]
    return rows


def _parsed(path: Path) -> Any:
    import yaml

    try:
        return from_yaml(file_text(path)) or []
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise CatalogError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None


def _written(folder: Path, rows: list[Any]) -> KindFile:
    raw = (json.dumps(rows, ensure_ascii=False, sort_keys=True) + "\n").encode()
    sha256 = hashlib.sha256(raw).hexdigest()
    try:
        file = KindFile(sha256=sha256, bytes=len(raw), rows=len(rows))
    except ValueError:
        raise RecordError(f"{len(raw):,} bytes of one kind are more than any reader takes") from None
    if not (folder / "rows" / f"{sha256}.json").exists():
        write_atomically(folder / "rows" / f"{sha256}.json", raw)
    return file

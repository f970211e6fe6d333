"""Rows of a kind: ours, then those of engine packages, of installed catalogues and the user's own.

`KIND.yaml`, `KIND.csv`, `KIND/*.yaml` and `KIND/*.csv` here, `KIND.yaml` in an engine's folder, ours or another
package's, `KIND.json` of a taken catalogue, then `KIND/*.yaml` in the user's own: a row with the same id replaces
ours. Nothing is read before its kind is asked for, nor twice.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from upright.base.bounds.files import file_text
from upright.base.errors import CatalogError
from upright.base.extensions import row_folders
from upright.base.home import home
from upright.base.yaml12 import from_yaml
from upright.facts.catalog.compiled import OURS as OURS
from upright.facts.catalog.compiled import keep_rows, kept_rows
from upright.facts.catalog.installed_catalogues import TakenVersion, labelled, taken_at, taken_versions
from upright.facts.catalog.rows.base import Owner, Row

ENGINE_FOLDERS = OURS.parents[1] / "engines"


class RowKind(NamedTuple):
    """A kind of row: its name, the class of its rows, and a line for people."""

    name: str
    row: str
    about: str
    unfold: str | None = None

    def row_class(self) -> type[Row]:
        found: type[Row] = _named(self.row)
        return found


_ALL = (
    RowKind("gpus", "hardware:GpuRow", "GPUs: memory, bandwidth, shared memory, tensor throughput, power"),
    RowKind("boxes", "hardware:BoxRow", "machines: GPUs, host memory, topology"),
    RowKind("memory_platforms", "memory_platform:MemoryPlatformRow", "system RAM of processors: channels and speed"),
    RowKind("links", "hardware:LinkRow", "measured paths between GPUs: bandwidth and latency"),
    RowKind("models", "model:ModelRow", "models: shapes, artifacts, parsers, sampling, licence"),
    RowKind("dialects", "dialect:DialectRow", "how models write tool calls and thinking, and which parser reads them"),
    RowKind("schemes", "model:SchemeRow", "schemes of builds: what a name such as NVFP4 says of the sizes"),
    RowKind("families", "words:FamilyRow", "families of models by the names of their tensors"),
    RowKind("layouts", "layout:LayoutRow", "how engines lay out the cache: bytes of an entry by type and silicon"),
    RowKind("architectures", "architecture:ArchitectureRow", "architectures: how their configuration is read"),
    RowKind("ggml_types", "words:GgmlTypeRow", "types of GGUF tensors: bits and blocks", "words:unfold_ggml_types"),
    RowKind("compat", "engine:CompatRow", "what works in which engine, by version and compute capability"),
    RowKind("constraints", "constraint:ConstraintRow", "what must, must not or should be told an engine, and when"),
    RowKind("images", "engine:ImageRow", "container images: what they contain, what they patch"),
    RowKind("getting", "getting:GettingRow", "how engines are got: commands, and where they were tried"),
    RowKind("flags", "engine:FlagRow", "flags of engines: what they mean, where they bite"),
    RowKind("failures", "failure:FailureRow", "lines of logs: what they mean, what cures them"),
    RowKind("advisories", "advisory:AdvisoryRow", "known security holes of engines, by version, and what to do"),
    RowKind("settings", "setting:SettingRow", "host settings that break or slow GPU boxes"),
    RowKind("terms", "words:TermRow", "words of plans, records and pages"),
    RowKind("scores", "score:ScoreRow", "published scores of models, which `recommend` ranks by"),
    RowKind("measurements", "words:MeasurementRow", "published results"),
    RowKind("overheads", "memory:OverheadRow", "memory that engines take beside weights and cache, with bands"),
    RowKind("pools", "memory:PoolRow", "published KV pools, which the overheads were fitted on"),
    RowKind("speeds", "speed:SpeedRow", "how fast engines work on which silicon and wires: fitted constants"),
    RowKind("usages", "usage:UsageRow", "what people do with a model: turns, tokens, pauses, for sizing a fleet"),
    RowKind("transfers", "speed:TransferRow", "what a step away from the fitted runs costs a predicted speed"),
    RowKind("prefills", "speed:PrefillRow", "what GPUs reach while a prompt is read, where no such run was published"),
    RowKind("patches", "patch:PatchRow", "patches: one edit of an installed engine, with its proof and its end"),
)
KINDS: Mapping[str, RowKind] = MappingProxyType({kind.name: kind for kind in _ALL})


class _Snapshot(NamedTuple):
    """What was looked at within `catalogue_snapshot`."""

    kinds: dict[str, Mapping[str, Row]]
    laid_over: dict[str, bool]
    """By kind, whether others laid rows over ours."""
    named: dict[tuple[str, str], Row | None]
    """By kind and any name; None if no row answers to it."""


_LOOKED_AT: ContextVar[_Snapshot | None] = ContextVar("_LOOKED_AT", default=None)


def user_folder() -> Path:
    """Where the user keeps rows of their own."""
    return home() / "catalog"


def kind_named(name: str) -> RowKind:
    if name not in KINDS:
        raise CatalogError(f"no such kind: {name}", hint=f"kinds: {', '.join(KINDS)}")
    return KINDS[name]


@contextmanager
def catalogue_snapshot() -> Iterator[None]:
    """Until it ends, nobody looks again whether rows were laid over ours: a plan rests on one catalogue."""
    if _LOOKED_AT.get() is not None:
        yield
        return
    token = _LOOKED_AT.set(_Snapshot({}, {}, {}))
    try:
        yield
    finally:
        _LOOKED_AT.reset(token)


def rows(kind: str) -> Mapping[str, Row]:
    """All rows of the kind by id."""
    looked = _LOOKED_AT.get()
    kinds = looked.kinds if looked else {}
    if kind not in kinds:
        kinds[kind] = _rows(kind_named(kind), user_folder(), row_folders(), taken_versions())
    return kinds[kind]


def once_a_snapshot(kind: str, name: str, look: Callable[[str, str], Row | None]) -> Row | None:
    """The row that `look` finds: a plan asks for the same few names hundreds of times."""
    looked = _LOOKED_AT.get()
    if looked is None:
        return look(kind, name)
    if (kind, name) not in looked.named:
        looked.named[kind, name] = look(kind, name)
    return looked.named[kind, name]


def rows_mentioning(kind: str, text: str) -> Mapping[str, Row]:
    """As `rows`, but only of files that hold the text, in any case: finds a name without reading everything."""
    rows_by_id: dict[str, Row] = {}
    for path, owner in files(kind):
        if text.lower() in file_text(path, errors="replace").lower():
            rows_by_id |= {row.id: row for row in rows_of_file(kind, path, owner)}
    return rows_by_id


def rows_wanted(kind: str, wanted: Callable[[str], bool]) -> Mapping[str, Row]:
    """As `rows`, but of our own files only rows whose text is wanted are parsed; the user's are read whole."""
    named, rows_by_id = kind_named(kind), dict[str, Row]()
    for path, owner in files(kind):
        if owner != "upright":
            rows_by_id |= {row.id: row for row in rows_of_file(kind, path, owner)}
            continue
        text = _text(path)
        parts = [f"- id:{part}" for part in f"\n{text}".split("\n- id:")[1:]]
        if (kept := kept_rows(path, text)) is not None and len(kept) == len(parts):
            rows_by_id |= {row.id: row for row, part in zip(kept, parts, strict=True) if wanted(part)}
            continue
        for content in _yaml("\n".join(part for part in parts if wanted(part)), path) or ():
            row = _row(named.row_class(), content, path, owner)
            rows_by_id[row.id] = row
    return rows_by_id


def row_by_id(kind: str, id_: str) -> Row | None:
    """One row by its id. Of a long file of ours only the part that holds it is parsed."""
    looked = _LOOKED_AT.get()
    laid_over = looked.laid_over if looked else {}
    if kind not in laid_over:
        laid_over[kind] = bool(_brought_files(kind) or _taken_files(kind) or _their_files(kind))
    return rows(kind).get(id_) if laid_over[kind] else _one_row(kind_named(kind), id_)


def rows_of_file(kind: str, path: Path, owner: Owner = "upright") -> tuple[Row, ...]:
    """The rows of one file, validated."""
    named, text = kind_named(kind), _text(path)
    ours = owner == "upright" and path.is_relative_to(OURS.parents[1])
    if ours and (kept := kept_rows(path, text)) is not None:
        return kept
    row_class = named.row_class()
    parsed = tuple(_row(row_class, content, path, owner) for content in _contents(text, path, named))
    if ours:
        keep_rows(path, text, parsed)
    return parsed


def compile_ours() -> None:
    """All our rows, kept for commands that start: when the package is built. What is kept already stays as it is."""
    for kind in KINDS:
        for path in _our_files(kind):
            if kept_rows(path, text := _text(path)) is None:
                keep_rows(path, text, rows_of_file(kind, path), anyway=True)


def files(kind: str) -> tuple[tuple[Path, Owner], ...]:
    """Every file that holds rows of the kind: ours, then those of an engine, of taken catalogues, and the user's."""
    name = kind_named(kind).name
    return (
        *((path, "upright") for path in _our_files(name)),
        *((path, "package") for path in _brought_files(name)),
        *((path, "catalogue") for path in _taken_files(name)),
        *((path, "user") for path in _their_files(name)),
    )


def _brought_files(name: str) -> list[Path]:
    places = (Path(folder) / f"{name}.yaml" for folder in row_folders())
    return [path for path in places if path.exists()]


def _taken_files(name: str) -> list[Path]:
    places = (taken.folder / f"{name}.json" for taken in taken_versions())
    return [path for path in places if path.exists()]


def _their_files(name: str) -> list[Path]:
    folder = f"{user_folder()}/{name}"
    # Asked for each row of a plan: pathlib is slow.
    return sorted(Path(folder).glob("*.yaml")) if os.path.isdir(folder) else []  # noqa: PTH112


@cache
def _our_files(name: str) -> tuple[Path, ...]:
    folder = (path for path in sorted((OURS / name).glob("*")) if path.suffix in (".yaml", ".csv"))
    beside = sorted(ENGINE_FOLDERS.glob(f"*/{name}.yaml"))
    return tuple(path for path in (OURS / f"{name}.yaml", OURS / f"{name}.csv", *folder, *beside) if path.exists())


@cache
def _one_row(kind: RowKind, id_: str) -> Row | None:
    head = re.compile(rf"""^- id: (["']?){re.escape(id_)}\1\s*$""", re.MULTILINE)
    for path in _our_files(kind.name):
        text = _our_text(path) if path.suffix == ".yaml" else ""
        if start := head.search(text):
            if (kept := _our_rows(kind.name, path)) is not None:
                return kept[id_]
            end = text.find("\n- id:", start.end())
            (content,) = _yaml(text[start.start() : end if end >= 0 else None], path)
            return _row(kind.row_class(), content, path, "upright")
    return rows(kind.name).get(id_)


@cache
def _our_rows(kind: str, path: Path) -> Mapping[str, Row] | None:
    """A file's rows by id; None where the whole of it would have to be parsed, and could not be kept."""
    kept = kept_rows(path, _our_text(path)) if sys.dont_write_bytecode else _our_file(kind, path)
    return None if kept is None else {row.id: row for row in kept}


@cache
def _our_file(kind: str, path: Path) -> tuple[Row, ...]:
    """The same whatever is laid over it."""
    return rows_of_file(kind, path)


@cache
def _our_text(path: Path) -> str:
    return _text(path)


@cache
def _rows(
    kind: RowKind, overlay: Path, brought: tuple[str, ...], taken: tuple[TakenVersion, ...]
) -> Mapping[str, Row]:  # fmt: skip
    rows_by_id: dict[str, Row] = {}
    for path, owner in files(kind.name):
        seen: set[str] = set()
        for row in _our_file(kind.name, path) if owner == "upright" else rows_of_file(kind.name, path, owner):
            if row.id in seen or (owner not in ("catalogue", "user") and row.id in rows_by_id):
                raise CatalogError(f"{path}: row {row.id}: the id is there twice")
            seen.add(row.id)
            rows_by_id[row.id] = row
    return MappingProxyType(rows_by_id)


def row_of(kind: str, content: Any, path: Path) -> Row:
    """A row of others as it would be read, before anybody took it."""
    return _row(kind_named(kind).row_class(), content, path, "catalogue")


def _row(row_class: type[Row], content: Any, path: Path, owner: Owner) -> Row:
    if not isinstance(content, dict):
        raise CatalogError(f"{path}: a row is a mapping with an id, not {content!r:.60}")
    name = content.get("id", "without an id")
    for reserved in ("owner", "file"):
        if reserved in content:
            raise CatalogError(f"{path}: row {name}: {reserved}: is set by the loader, not by the row")
    shown, hint = _shown(path) if owner == "upright" else str(path), None
    if owner == "catalogue" and (taken := taken_at(path.parent)) is not None:
        content, shown, hint = labelled(content, taken.label), taken.label, f"upright catalog rollback {taken.name}"
    try:
        return row_class.model_validate({**content, "owner": owner, "file": shown})
    except ValidationError as error:
        raise CatalogError(f"{path}: row {name}: {_first_fault(error)}", hint=hint) from None


def _shown(path: Path) -> str:
    """A file of ours, without the place where Upright is installed."""
    home = next((home for home in (OURS, OURS.parents[1]) if path.is_relative_to(home)), None)
    return path.relative_to(home).as_posix() if home else str(path)


def _first_fault(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "row"
    return f"{field}: {first['msg']}"


def _text(path: Path) -> str:
    try:
        return file_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path}: cannot be read: {error}") from None


def _contents(text: str, path: Path, kind: RowKind) -> Iterable[Any]:
    if path.suffix == ".csv":
        return _csv(text)
    content = _json(text, path) if path.suffix == ".json" else _yaml(text, path)
    if content is None:
        return ()
    if isinstance(content, list):
        return content
    if kind.unfold is not None and "id" not in content:
        unfolded: list[Any] = _named(kind.unfold)(content)
        return unfolded
    return [content]


def _csv(text: str) -> Iterator[dict[str, Any]]:
    for line in csv.DictReader(text.splitlines()):
        filled: dict[str, Any] = {name: cell for name, cell in line.items() if cell}
        yield {**filled, "sources": [filled["sources"]] if "sources" in filled else []}


def _named(path: str) -> Any:
    """`module:name` among the rows."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"upright.facts.catalog.rows.{module}"), name)


def _json(text: str, path: Path) -> Any:
    from upright.base.bounds.bounded_json import parse_peer_json
    from upright.base.bounds.errors import ExceededError

    try:
        return parse_peer_json(text)
    except (ValueError, ExceededError):
        raise CatalogError(f"{path}: is not JSON") from None


def _yaml(text: str, path: Path) -> Any:
    import yaml

    try:
        return from_yaml(text)
    except yaml.YAMLError as error:
        raise CatalogError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None

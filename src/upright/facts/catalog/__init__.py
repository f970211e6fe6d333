"""Facts: rows with sources, one loader, and a function for each kind.

    catalog.gpu("rtx-5090").memory_bytes         catalog.model("moonshotai/Kimi-K2.6").artifacts
    catalog.find_gpu("NVIDIA GB10")              catalog.compat("vllm", "0.32.0", "12.0")

A name that is not there is a CatalogError with near names; a wrong row is one that names file, row and field.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

from upright.base.bounds.files import file_text
from upright.base.errors import CatalogError
from upright.facts.catalog.loader import (
    KINDS,
    files,
    once_a_snapshot,
    row_by_id,
    rows,
    rows_of_file,
    rows_wanted,
    user_folder,
)
from upright.facts.catalog.near_names import as_id, part_of
from upright.facts.catalog.near_names import near_names as nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from upright.facts.catalog.rows.advisory import AdvisoryRow
    from upright.facts.catalog.rows.base import Owner, Row
    from upright.facts.catalog.rows.constraint import ConstraintRow
    from upright.facts.catalog.rows.engine import CompatRow, FlagRow, ImageRow
    from upright.facts.catalog.rows.failure import FailureRow
    from upright.facts.catalog.rows.hardware import BoxRow, GpuRow, LinkRow
    from upright.facts.catalog.rows.model import ModelRow
    from upright.facts.catalog.rows.setting import SettingRow
    from upright.facts.catalog.rows.words import GgmlTypeRow, MeasurementRow, TermRow
    from upright.facts.records.box import Box

__all__ = [
    "KINDS",
    "advisories",
    "box",
    "box_record",
    "boxes",
    "compat",
    "constraints",
    "failures",
    "find_gpu",
    "find_image",
    "flags",
    "get",
    "ggml_types",
    "gpu",
    "gpus",
    "images",
    "links",
    "measurements",
    "model",
    "models",
    "rows",
    "settings",
    "several_boxes",
    "terms",
]


def get(kind: str, name: str) -> Row:
    """The row of that id or alias."""
    row = find(kind, name)
    if row is None:
        close = near(kind, name)
        hint = f"near: {', '.join(close)}" if close else f"upright catalog list {kind}"
        raise CatalogError(f"no {name} among the {kind}", hint=hint)
    return row


def near(kind: str, name: str, count: int = 4) -> tuple[str, ...]:
    """Ids of the kind that were perhaps meant; of boxes also a number of GPUs."""
    known = {known_name: row.id for row in rows(kind).values() for known_name in (*getattr(row, "aliases", ()), row.id)}
    if kind == "boxes":
        from upright.facts.catalog.gpu_counts import near_gpu_counts

        chips = {chip: chip for row in gpus() for chip in row.aliases if part_of(chip, name)}
        known |= chips | {known_name: known_name for known_name in near_gpu_counts(name, gpus())}
    return tuple(dict.fromkeys(known[known_name] for known_name in nearest(name, known, 3 * count)))[:count]


def find(kind: str, name: str) -> Row | None:
    """As `get`, but None when there is none."""
    if kind == "models":
        return find_model(name)
    return once_a_snapshot(kind, name, _find)


def _find(kind: str, name: str) -> Row | None:
    if (exact_row := row_by_id(kind, name)) is not None:
        return exact_row
    wanted = {name.lower(), as_id(name)}
    for row in rows(kind).values():
        if not wanted.isdisjoint(names_of(row)):
            return row
    return _typed_gpu_row(name) if kind == "gpus" else None


def _typed_gpu_row(name: str) -> GpuRow | None:
    """By a name that says the same; of several the one with the memory that is told, or that is sold with it."""
    from upright.facts.catalog.typed_names import same_memory, typed_gpu

    typed = typed_gpu(name)
    found = [row for row in gpus() if typed.key and any(typed_gpu(known).key == typed.key for known in names_of(row))]
    told = typed.memory_gb
    if told is None:
        return found[0] if found else None
    if same := next((row for row in found if same_memory(told, row.memory_gb.value)), None):
        return same
    larger = [row for row in found if row.unified_memory and (row.memory_gb.value or 0) >= told]
    return min(larger, key=lambda row: row.memory_gb.value or 0, default=None)


def gpus() -> tuple[GpuRow, ...]:
    return cast("tuple[GpuRow, ...]", tuple(rows("gpus").values()))


def gpu(name: str) -> GpuRow:
    return cast("GpuRow", get("gpus", name))


def find_gpu(device_name: str) -> GpuRow | None:
    """The silicon behind a name that the driver reports; None if no row knows it."""
    wanted = _bare(device_name)
    for row in gpus():
        if wanted in (_bare(driver_name) for driver_name in row.device_names):
            return row
    return None


def boxes() -> tuple[BoxRow, ...]:
    return cast("tuple[BoxRow, ...]", tuple(rows("boxes").values()))


def box(name: str) -> BoxRow:
    """A row; or so many of a GPU, such as 4x-rtx-5090 or 8x-h100, in a machine of which nothing else is known."""
    return find_box(name) or cast("BoxRow", get("boxes", name))


def find_box(name: str) -> BoxRow | None:
    """As `box`, but None when there is none. Of a name of several GPUs the wrong piece is an error."""
    from upright.facts.catalog.gpu_counts import box_of_gpus, mixed_box, of_several_kinds

    def known(gpu_name: str) -> GpuRow | None:
        return cast("GpuRow | None", find("gpus", gpu_name))

    row = find("boxes", name) or box_of_gpus(name, known)
    if row is None and of_several_kinds(name, known):
        return mixed_box(name, known, gpus())
    return cast("BoxRow | None", row)


def several_boxes(name: str) -> tuple[int, str] | None:
    """`2x-dgx-spark`: how many, and the name of one. None for one box, however many GPUs it has."""
    from upright.facts.catalog.gpu_counts import boxes_counted

    return boxes_counted(
        as_id(name),
        lambda one: cast("BoxRow | None", find("boxes", one)),
        lambda one: cast("GpuRow | None", find("gpus", one)),
    )


def box_record(name: str) -> Box:
    """The box as a record, its figures on the catalogue's word; `24GB 936GB/s` on the owner's."""
    from upright.facts.catalog.box_records import plain_record, record
    from upright.facts.catalog.typed_names import counted, plain_gpu, typed_gpu

    count, of_what = counted(name)
    if find("boxes", name) is None and (plain := plain_gpu(of_what)) is not None:
        return plain_record(count, plain)
    return record(box(name), typed_gpu(of_what).memory_gb)


def links() -> tuple[LinkRow, ...]:
    return cast("tuple[LinkRow, ...]", tuple(rows("links").values()))


def settings() -> tuple[SettingRow, ...]:
    return cast("tuple[SettingRow, ...]", tuple(rows("settings").values()))


def compat(
    engine: str, version: str | None = None, compute_capability: str | None = None, *, patched: bool | None = None
) -> tuple[CompatRow, ...]:
    """What is known of the engine there; None asks for every version, silicon, or both kinds of build."""
    compat_rows = cast("tuple[CompatRow, ...]", tuple(rows("compat").values()))
    return tuple(
        row
        for row in compat_rows
        if row.engine == engine
        and row.holds(version, compute_capability)
        and (patched is None or row.patched == patched)
    )


def constraints(engine: str | None = None) -> tuple[ConstraintRow, ...]:
    """What one engine must, must not or should be told."""
    known = cast("tuple[ConstraintRow, ...]", tuple(rows("constraints").values()))
    return tuple(row for row in known if engine in (None, row.engine))


def images(engine: str | None = None) -> tuple[ImageRow, ...]:
    image_rows = cast("tuple[ImageRow, ...]", tuple(rows("images").values()))
    return tuple(row for row in image_rows if engine in (None, row.engine))


def find_image(name: str) -> ImageRow | None:
    """By the row's id, the whole reference, or its tag."""
    for row in images():
        if name in (row.id, row.reference, row.pinned, row.reference.rpartition(":")[2]):
            return row
    return None


def failures(engine: str | None = None) -> tuple[FailureRow, ...]:
    """Rows whose lines this engine's log can hold."""
    failure_rows = cast("tuple[FailureRow, ...]", tuple(rows("failures").values()))
    return tuple(row for row in failure_rows if engine is None or engine in row.engines or "any" in row.engines)


def failing_part(part: str | None) -> FailureRow | None:
    """The row that speaks of a part as a whole."""
    return next((row for row in failures() if row.where == "part" and row.part == part), None)


def advisories(engine: str | None = None, version: str | None = None) -> tuple[AdvisoryRow, ...]:
    """All, or those of one engine's version, which alone are read then."""
    if engine is None or version is None:
        known = cast("tuple[AdvisoryRow, ...]", tuple(rows("advisories").values()))
        return tuple(row for row in known if engine is None or any(part.engine == engine for part in row.affected))
    return _of_version(engine, version.partition("+")[0], user_folder())


@cache
def _of_version(engine: str, version: str, _overlay: Path) -> tuple[AdvisoryRow, ...]:
    from upright.facts.catalog.versions import in_range

    ranges = re.compile(rf'\{{engine: {re.escape(engine)}, versions: "([^"]+)"')
    advisory_rows = rows_wanted(
        "advisories", lambda text: any(in_range(version, part) for part in ranges.findall(text))
    )
    known = cast("tuple[AdvisoryRow, ...]", tuple(advisory_rows.values()))
    return tuple(row for row in known if row.of(engine, version) is not None)


def flags(engine: str | None = None) -> tuple[FlagRow, ...]:
    """The flags that are explained; `catalog.recorded_flags` knows all that a version takes."""
    flag_rows = cast("tuple[FlagRow, ...]", tuple(rows("flags").values()))
    return tuple(row for row in flag_rows if engine in (None, row.engine))


def terms() -> tuple[TermRow, ...]:
    return cast("tuple[TermRow, ...]", tuple(rows("terms").values()))


def ggml_types() -> tuple[GgmlTypeRow, ...]:
    return cast("tuple[GgmlTypeRow, ...]", tuple(rows("ggml_types").values()))


def measurements() -> tuple[MeasurementRow, ...]:
    return cast("tuple[MeasurementRow, ...]", tuple(rows("measurements").values()))


def models() -> tuple[ModelRow, ...]:
    return cast("tuple[ModelRow, ...]", tuple(rows("models").values()))


def model(name: str) -> ModelRow:
    """By id, repository (of any artifact, `:QUANT` allowed), or alias."""
    return cast("ModelRow", get("models", name))


@cache
def configurations() -> frozenset[str]:
    """Names of the recorded ones."""
    from upright.facts.catalog.loader import OURS

    return frozenset(path.stem for path in (OURS / "configurations").glob("*.json"))


def configuration(name: str) -> Mapping[str, Any]:
    """A recorded config.json, as its maker wrote it."""
    from upright.base.bounds.bounded_json import parse_json
    from upright.facts.catalog.loader import OURS

    content: Mapping[str, Any] = parse_json((OURS / "configurations" / f"{name}.json").read_text(encoding="utf-8"))
    return content


@cache
def healthy_lines() -> tuple[str, ...]:
    """Lines of engines that worked, one of each kind: what a new row of a failure must not claim."""
    from upright.facts.catalog.loader import OURS

    return tuple((OURS / "healthy_lines.txt").read_text(encoding="utf-8").splitlines())


_LAST_WORD: tuple[Owner, ...] = ("user", "catalogue", "upright", "package")
"""Whose row of a name holds, as the rows of a kind are laid over each other."""


def find_model(name: str) -> ModelRow | None:
    """As `model`, but None when there is none; reads only the files that mention the name."""
    wanted = as_id(name).partition(":")[0]
    paths = files("models")
    for owner in _LAST_WORD:
        inside = tuple(path for path, whose in paths if whose == owner)
        row = _our_model(wanted, inside) if owner == "upright" else _model_in(wanted, inside, owner)
        if row is not None:
            return row
    return None


def model_as_typed(text: str) -> str:
    """What is meant by an address of the hub, a path in a cache elsewhere, a command's words, another tool's tag."""
    if find_model(text) is not None and ":" not in text:
        return text
    from pathlib import Path

    from upright.facts.catalog.typed_names import hub_name, library_name

    path = Path(text).expanduser()
    if path.exists() and not (path.is_dir() and path.name.startswith("models--")):
        return text
    of_hub = hub_name(text)
    return of_hub or library_name(text, lambda name: find_model(name) is not None, rows("models")) or text


@lru_cache(maxsize=1024)
def _our_model(wanted: str, paths: tuple[Path, ...]) -> ModelRow | None:
    """Asked many times for a plan; our own files do not change beneath us."""
    return _model_in(wanted, paths, "upright")


def _model_in(wanted: str, paths: tuple[Path, ...], owner: Owner) -> ModelRow | None:
    for path in sorted(paths, key=lambda path: path.stem != wanted):
        if wanted in file_text(path, errors="replace").lower():
            for row in rows_of_file("models", path, owner):
                if wanted in names_of(row):
                    return cast("ModelRow", row)
    return None


def names_of(row: Any) -> set[str]:
    """Every name that a row answers to, in lower case."""
    names = {row.id, *getattr(row, "aliases", ()), *getattr(row, "device_names", ())}
    if repository := getattr(row, "repository", None):
        names |= {repository, repository.rpartition("/")[2]}
    for artifact in getattr(row, "artifacts", ()):
        names |= {artifact.repository, artifact.repository.rpartition("/")[2]}
    return {name.lower() for name in names}


def _bare(device_name: str) -> str:
    return device_name.lower().removeprefix("nvidia ").removeprefix("geforce ").strip()

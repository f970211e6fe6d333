"""fleet.yaml -> Fleet, or what is wrong on which line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from upright.base.bounds.files import file_text
from upright.base.errors import RecordError, UsageError
from upright.base.yaml12 import lines_of
from upright.facts.records.base import fields_added
from upright.facts.records.fleet import Fleet
from upright.facts.records.loading import load, parse


def read_fleet(path: Path) -> Fleet:
    """The fleet in that file. Complaints name the line."""
    try:
        text = file_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{path} cannot be read: {reason}", hint="upright fleet --help shows a fleet.yaml") from None
    _complain_by_line(text, str(path))
    fleet = load(text, Fleet, where=str(path))
    if "prove_to" in fleet.model_fields_set:
        _refuse_unknown_rung(fleet.prove_to, f"{path} line {lines_of(text).get(('prove_to',), 1)}")
    return fleet


def _complain_by_line(text: str, where: str) -> None:
    """Of a file that names itself a fleet in today's words; what is wrong with others `load` says."""
    try:
        document = parse(text, where=where)
    except RecordError as error:
        raise RecordError(error.message, hint=error.hint or "upright fleet --help shows a fleet.yaml") from None
    if document.get("record") != Fleet.kind:
        raise RecordError(
            f"{where} is no fleet: its first lines are not `record: fleet` and `schema: {Fleet.schema_version}`",
            hint="upright fleet --help shows one",
        )
    if not _in_the_words_of_today(document.get("schema")):
        return
    content = {name: entry for name, entry in document.items() if name not in ("record", "schema", "digest")}
    try:
        Fleet.model_validate(content)
    except ValidationError as error:
        lines = lines_of(text)
        first = error.errors()[0]
        place, line = _place(first["loc"], lines, document)
        at = f"{where} line {line}: {place}: " if place else f"{where}: "
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise RecordError(
            f"{at}{_words(first)}{more}",
            hint="upright fleet --help shows a fleet.yaml; upright explain Fleet.FIELD, what a field means",
        ) from None


def _in_the_words_of_today(schema: object) -> bool:
    """Of this schema, or of an older one to which only fields were added since: people write these files by hand."""
    if type(schema) is not int or not 1 <= schema <= Fleet.schema_version:
        return False
    return all(Fleet.upgrades[older] is fields_added for older in range(schema, Fleet.schema_version))


def _refuse_unknown_rung(name: str, where: str) -> None:
    """Before a roll has drained and restarted a box for it."""
    from upright.proof.ladder.ladder import rung_names  # not for every file: it takes a second

    if name not in rung_names():
        raise RecordError(f"{where}: prove_to: no rung named {name}", hint=f"rungs: {', '.join(rung_names())}")


def _place(loc: Sequence[int | str], lines: dict[tuple[int | str, ...], int], data: Any) -> tuple[str, int]:
    """The field as a person would name it, and the nearest line that the file has for it."""
    path_parts = []
    for part in loc:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            data = None
        named = isinstance(part, int) and isinstance(data, dict) and "name" in data
        path_parts.append(str(data["name"] if named else part))
    at = tuple(loc)
    while at and at not in lines:
        at = at[:-1]
    return ".".join(path_parts), lines.get(at, 1)


def _words(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "there is no such field"
    return str(problem["msg"]).removeprefix("Value error, ")

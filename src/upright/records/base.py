"""Record <-> canonical JSON and its digest.

A Record is a file: it names its kind and schema, its digest is the sha256 of its canonical JSON, and `made_from` holds
the digests of the records it was made from. A Part is a piece of a record and has no life of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from upright.errors import RecordError

Basis = Literal["read", "probed", "measured", "derived", "catalog", "assumed"]
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


class Part(BaseModel):
    """A piece of a record: frozen, and strict about unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Figure(Part):
    """A number that knows where it came from. Unknown is `value=None, basis=None`, and `source` says why."""

    value: int | float | None
    """The number, in the unit that the field's name ends with."""
    basis: Basis | None
    """read, probed, measured, derived, catalog or assumed; None exactly when the value is unknown."""
    source: str | None = None
    """The file, command, row, log line or formula that gave the value, or why there is none."""

    @model_validator(mode="after")
    def _unknown_has_no_basis(self) -> Self:
        if (self.value is None) != (self.basis is None):
            raise ValueError("a figure has a basis exactly when it has a value")
        return self


def unknown(why: str) -> Figure:
    return Figure(value=None, basis=None, source=why)


class Record(Part):
    """A versioned file. Subclasses set `kind` and `schema_version`, and `upgrades` from each older schema."""

    kind: ClassVar[str]
    schema_version: ClassVar[int] = 1
    upgrades: ClassVar[Mapping[int, Upgrade]] = {}

    made_from: tuple[str, ...] = ()
    """`kind:sha256` of each record that this one was made from."""

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON, kind and schema included."""
        return hashlib.sha256(canonical(self._envelope())).hexdigest()

    @property
    def reference(self) -> str:
        """How another record's `made_from` names this one."""
        return f"{self.kind}:{self.digest}"

    def to_dict(self) -> dict[str, Any]:
        """The file's content: envelope first, then the fields."""
        envelope = self._envelope()
        return {"record": envelope.pop("record"), "schema": envelope.pop("schema"), "digest": self.digest, **envelope}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def _envelope(self) -> dict[str, Any]:
        return {"record": self.kind, "schema": self.schema_version, **self.model_dump(mode="json")}


R = TypeVar("R", bound=Record)


def from_dict(kind: type[R], data: Mapping[str, Any], *, where: str = "record") -> R:
    """The record in `data`, upgraded if older; a digest that no longer fits is an error."""
    content = dict(data)
    named, schema, digest = content.pop("record", None), content.pop("schema", None), content.pop("digest", None)
    if named != kind.kind:
        raise RecordError(f"{where} is a {named or 'file without a record kind'}, not a {kind.kind}")
    if not isinstance(schema, int) or not 1 <= schema <= kind.schema_version:
        raise RecordError(
            f"{where} has {kind.kind} schema {schema}; this version reads 1 to {kind.schema_version}",
            hint="a newer upright wrote it: upgrade upright",
        )
    if digest is not None and digest != _digest_of(named, schema, content):
        raise RecordError(f"{where} was changed after it was written: its digest does not fit its content")
    for older in range(schema, kind.schema_version):
        content = kind.upgrades[older](content)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{where} is not a valid {kind.kind}: {place}: {first['msg']}") from None


def from_json(kind: type[R], text: str | bytes, *, where: str = "record") -> R:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RecordError(f"{where} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise RecordError(f"{where} is not a record: expected a JSON object")
    return from_dict(kind, data, where=where)


def canonical(data: Any) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _digest_of(kind: str, schema: int, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical({"record": kind, "schema": schema, **content})).hexdigest()

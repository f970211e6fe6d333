"""Record <-> canonical JSON and its digest.

A Record is a file: it names its kind and schema, its digest is the sha256 of its canonical JSON, and `made_from` holds
the digests of the records it was made from. An Entry is a line of a log. A Part is a piece of either.

Modules of records and rows do not postpone their annotations: pydantic would compile each of them again at every
start, a third of what a class costs.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import RecordError, UsageError
from upright.base.untrusted_text import on_one_line

_LONGEST_REASON = 4000
Basis = Literal["read", "probed", "measured", "derived", "catalog", "assumed"]
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def fields_added(content: dict[str, Any]) -> dict[str, Any]:
    """The upgrade from a schema whose content is whole: what it could not say has a value where nothing is said."""
    return content


class Part(BaseModel):
    """A piece of a record: frozen, strict about unknown names, no NaN and no infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=(), defer_build=True
    )


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


class Versioned(Part):
    """What outlives the program that wrote it: `upgrades[n]` takes content of schema n to schema n + 1."""

    kind: ClassVar[str]
    schema_version: ClassVar[int] = 1
    upgrades: ClassVar[Mapping[int, Upgrade]] = {}


class Entry(Versioned):
    """A line of a deployment's evidence; the log's chain guards it."""


class Record(Versioned):
    """A versioned file. Subclasses set `kind` and `schema_version`, and `upgrades` from each older schema."""

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
        digest = hashlib.sha256(canonical(envelope)).hexdigest()
        return {"record": envelope.pop("record"), "schema": envelope.pop("schema"), "digest": digest, **envelope}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_yaml(self) -> str:
        """For people to edit: without the digest, so that an edited file is as good as an unedited one."""
        from upright.base.yaml12 import to_yaml

        content = self.to_dict()
        del content["digest"]
        return to_yaml(content)

    def _envelope(self) -> dict[str, Any]:
        return {"record": self.kind, "schema": self.schema_version, **self.model_dump(mode="json")}


R = TypeVar("R", bound=Record)
V = TypeVar("V", bound=Versioned)


def from_dict(kind: type[R], data: Mapping[str, Any], *, where: str = "record") -> R:
    """The record in `data`, upgraded if older; a digest that does not fit is an error, no digest is not."""
    content = dict(data)
    named, schema, digest = content.pop("record", None), content.pop("schema", None), content.pop("digest", None)
    if named != kind.kind:
        raise RecordError(f"{where} is a {named or 'file without a record kind'}, not a {kind.kind}")
    if digest is None:
        _refuse_halves(data, where)
    elif digest != digest_of(data):
        raise RecordError(
            f"{where} was changed after it was written: its digest does not fit its content",
            hint="if the change was meant, remove the digest",
        )
    return upgrade_content(kind, schema, content, where=where)


def from_json(kind: type[R], text: str | bytes, *, where: str = "record") -> R:
    try:
        payload = parse_json(text)
    except ValueError as error:
        raise RecordError(f"{where} is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise RecordError(f"{where} is not a record: expected a JSON object")
    return from_dict(kind, payload, where=where)


def upgrade_content(kind: type[V], schema: Any, content: dict[str, Any], *, where: str) -> V:
    """Content of that schema, brought up to the present one and validated."""
    newest = kind.schema_version
    if type(schema) is not int or schema < 1:
        raise RecordError(f"{where} has no schema of a {kind.kind}: {schema}", hint=f"the present one is {newest}")
    if schema > newest:
        raise RecordError(
            f"{where} has {kind.kind} schema {schema}; this version reads 1 to {newest}",
            hint="a newer upright wrote it: upgrade upright",
        )
    try:
        for older in range(schema, newest):
            content = kind.upgrades[older](content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise RecordError(f"{where} is not a valid {kind.kind} of schema {schema}: {reason}") from None
    try:
        return kind.model_validate(content)
    except UsageError as error:  # a name that cannot be one
        raise RecordError(f"{where} is not a valid {kind.kind}: {error.message}", hint=error.hint) from None
    except ValidationError as error:
        raise RecordError(f"{where} is not a valid {kind.kind}: {_first_of(error)}") from None


def canonical(data: Any) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8, whole numbers without a point."""
    return json.dumps(_whole(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(data: Mapping[str, Any]) -> str:
    """The digest that a record's file should carry: of all of it but the digest itself."""
    try:
        text = canonical({name: field_value for name, field_value in data.items() if name != "digest"})
    except (TypeError, ValueError) as error:
        raise RecordError(f"a record holds what JSON cannot: {error}") from None
    return hashlib.sha256(text).hexdigest()


def json_safe(value: Any) -> Any:
    """What JSON cannot carry, spelled out: NaN and infinities become words, halves of surrogates their escapes.

    Broken engines really send these, and evidence that cannot be written down is no evidence.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {json_safe(name): json_safe(nested) for name, nested in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(nested) for nested in value]
    return value


def one_line(words: Any) -> Any:
    return on_one_line(words, _LONGEST_REASON) if isinstance(words, str) and not _is_line(words) else words


def _is_line(words: str) -> bool:
    return len(words) <= _LONGEST_REASON and not any(mark in words for mark in "\n\r\u2028\u2029\x0b\x0c\x85")


QuotedText = Annotated[str, BeforeValidator(json_safe)]
"""Text that may quote an engine."""
Reason = Annotated[str, BeforeValidator(lambda words: one_line(json_safe(words)))]
"""A sentence that may quote another: it stands in a list, a table or a line, and starts none of its own."""
Json = Annotated[dict[str, Any], BeforeValidator(json_safe)]
"""A JSON object as an engine sent it."""


def _refuse_halves(data: Mapping[str, Any], where: str) -> None:
    """JSON can spell half a character, which no file of text can hold: what was read could not be written again."""
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise RecordError(f"{where} holds half a character (a lone surrogate), which is no text") from None
    except (TypeError, ValueError):
        return  # the record's own check says it better


def _first_of(error: ValidationError) -> str:
    problems = error.errors()
    place, message = ".".join(str(part) for part in problems[0]["loc"]), problems[0]["msg"]
    if problems[0]["type"] == "string_type" and isinstance(problems[0]["input"], int | float):
        message = f"{problems[0]['input']} is a number here; put it in quotes"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place + ': ' if place else ''}{message}{more}"


def _whole(data: Any) -> Any:
    """2.0 as 2, so that equal records have equal digests whichever tool wrote the number."""
    if data is None or isinstance(data, str | int):  # most of a record, and the quickest to tell
        return data
    if isinstance(data, float):
        return int(data) if data.is_integer() else data
    if isinstance(data, dict | Mapping):
        return {name: _whole(member) for name, member in data.items()}
    if isinstance(data, list | tuple):
        return [_whole(element) for element in data]
    return data

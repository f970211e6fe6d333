"""A value + a JSON schema -> why it does not fit, or None.

The part of JSON schema that tools declare: type, properties, required, additionalProperties, items and their number,
enum, const.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "number": (int, float), "integer": (int,),
}  # fmt: skip


def misfit(value: Any, schema: Mapping[str, Any], place: str = "") -> str | None:
    where = place or "the value"
    kinds = schema.get("type")
    if kinds is not None and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return f"{where} is {value!r}, not {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {value!r}, not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        return f"{where} is {value!r}, not {schema['const']!r}"
    if isinstance(value, dict):
        return _object_misfit(value, schema, place)
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{where} has {len(value)} items"
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        problems = (misfit(element, schema["items"], f"{place}[{index}]") for index, element in enumerate(value))
        return next((problem for problem in problems if problem), None)
    return None


def _object_misfit(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{place or 'the object'} lacks {name}"
    for name, member in value.items():
        if name in properties:
            if problem := misfit(member, properties[name], f"{place}.{name}".lstrip(".")):
                return problem
        elif schema.get("additionalProperties") is False:
            return f"{place or 'the object'} has {name}, which the schema does not know"
    return None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))

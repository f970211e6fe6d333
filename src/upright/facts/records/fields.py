"""A record's class -> what each field means, from the string under it.

Parsed only when somebody asks (the docs, `upright explain`), so that importing a record costs nothing.
"""

import ast
import inspect
import sys
import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from upright.facts.records.base import Part


class FieldPlace(NamedTuple):
    """A record, a part or a field, as people name it."""

    path: str
    sort: str
    words: str
    type: str | None
    around: str | None
    inside: tuple[tuple[str, str], ...]
    module: str


def find_fields(path: str) -> Iterator[FieldPlace]:
    """What `Plan`, `plan.kv` or `Gpu.memory_bytes` names, in any case; an empty path gives every field there is."""
    wanted = path.lower()
    for start, part in _parts().items():
        if wanted == start.lower():
            yield FieldPlace(start, _sort(part), _about(part), None, None, _inside(part), part.__module__)
        elif not wanted or wanted.startswith(f"{start.lower()}."):
            yield from (place for place in _walk(start, part) if not wanted or place.path.lower() == wanted)


def field_doc(part: type[Part], name: str) -> str | None:
    """The string under the field, in the class or in the one it inherits the field from."""
    return field_docs(part).get(name)


def field_docs(part: type[Part]) -> dict[str, str]:
    """Every field's string, in the order of the fields; a field without one is left out."""
    docs: dict[str, str] = {}
    for kind in reversed(part.__mro__):
        if issubclass(kind, Part):
            docs.update(_documented(kind.__module__).get(kind.__qualname__, {}))
    return {name: docs[name] for name in part.model_fields if name in docs}


@cache
def _documented(module: str) -> dict[str, dict[str, str]]:
    """Class -> field -> the string under it."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _strings_under_fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _strings_under_fields(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for field, under in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant) and isinstance(under.value.value, str):
            docs[field.target.id] = inspect.cleandoc(under.value.value)
    return docs


@cache
def _parts() -> dict[str, type[Part]]:
    """Every record and every part that one reaches, by class name."""
    from upright.facts.records.loading import KINDS, record_class

    parts: dict[str, type[Part]] = {}
    waiting: list[type[Part]] = [record_class(kind) for kind in KINDS]
    while waiting:
        part = waiting.pop(0)
        if part.__name__ not in parts:
            parts[part.__name__] = part
            waiting += [inner for hint in _hints(part).values() for inner in _classes(hint)]
    return parts


def _walk(path: str, part: type[Part], depth: int = 4) -> Iterator[FieldPlace]:
    """Every field below the path; through lists and options as if they were not there."""
    docs = field_docs(part)
    for name, hint in _hints(part).items():
        here = f"{path}.{name}"
        inner = list(_classes(hint))
        inside = tuple(dict.fromkeys(inner_field for kind in inner for inner_field in _inside(kind)))
        around = f"{part.__name__}: {_about(part)}"
        yield FieldPlace(here, "field of a record", docs.get(name, ""), _type(hint), around, inside, part.__module__)
        if depth > 0:
            for kind in inner:
                yield from _walk(here, kind, depth - 1)


def _hints(part: type[Part]) -> dict[str, Any]:
    hints = get_type_hints(part, include_extras=True)
    return {name: hints[name] for name in part.model_fields}


def _classes(hint: Any) -> Iterator[type[Part]]:
    if isinstance(hint, type) and issubclass(hint, Part):
        yield hint
    for inner in get_args(hint):
        if get_origin(hint) is not Literal:
            yield from _classes(inner)


def _sort(part: type[Part]) -> str:
    return "record" if hasattr(part, "kind") and hasattr(part, "schema_version") else "part of a record"


def _about(part: type[Part]) -> str:
    return inspect.cleandoc(part.__doc__ or "")


def _inside(part: type[Part]) -> tuple[tuple[str, str], ...]:
    docs = field_docs(part)
    return tuple((name, docs.get(name, "")) for name in part.model_fields)


def _type(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_type(argument) for argument in inner)
    if origin is Literal:
        return ", ".join(str(argument) for argument in inner)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is not None:
        return str(hint).replace("typing.", "")
    return {"NoneType": "null", "str": "text", "int": "whole number", "float": "number", "bool": "true or false"}.get(
        getattr(hint, "__name__", str(hint)), getattr(hint, "__name__", str(hint))
    )

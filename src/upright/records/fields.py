"""A record's class -> what each field means, from the string under it.

Parsed only when somebody asks (the docs, `upright explain`), so that importing a record costs nothing.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache

from upright.records.base import Part


def field_doc(part: type[Part], name: str) -> str | None:
    """The string under the field, in the class or in the one it inherits the field from."""
    return field_docs(part).get(name)


def field_docs(part: type[Part]) -> dict[str, str]:
    """Every field's string, in the order of the fields; a field without one is left out."""
    found: dict[str, str] = {}
    for kind in reversed(part.__mro__):
        if issubclass(kind, Part):
            found.update(_documented(kind.__module__).get(kind.__qualname__, {}))
    return {name: found[name] for name in part.model_fields if name in found}


@cache
def _documented(module: str) -> dict[str, dict[str, str]]:
    """Class -> field -> the string under it."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _strings_under_fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _strings_under_fields(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, under in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant) and isinstance(under.value.value, str):
            found[field.target.id] = inspect.cleandoc(under.value.value)
    return found

"""Source text + an edit of one function -> the new text; every other byte stays.

The place is found on the syntax tree, the change is made in the text at that place, so that comments and layout of the
rest survive, and the result is refused unless exactly the named function differs.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from typing import TypeVar

from upright.base.errors import EngineError
from upright.facts.catalog.rows.patch import Edit

N = TypeVar("N", bound=ast.stmt)


def apply(text: str, edit: Edit) -> str:
    function = _function(ast.parse(text), edit.function)
    place = _branch(function, edit) if edit.kind == "branch-before" else _statement(function, edit)
    lines = text.split("\n")
    line = lines[place.lineno - 1]
    column = len(line.encode()[: place.col_offset].decode())
    indent, at = line[:column], sum(len(earlier_line) + 1 for earlier_line in lines[: place.lineno - 1]) + column
    if indent.strip() or text.startswith("elif", at):
        raise EngineError(f"{edit.function}: {edit.anchor} does not stand at the start of a line")
    joint = "el" if edit.kind == "branch-before" else ""
    code = textwrap.indent(edit.code.strip("\n"), indent).lstrip()
    changed = f"{text[:at]}{code}\n{indent}{joint}{text[at:]}"
    _only_there(text, changed, edit)
    return changed


def changed_functions(before: str, after: str) -> set[str]:
    """Names of the top-level statements whose syntax trees differ."""
    old, new = (_statements(ast.parse(text)) for text in (before, after))
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(definitions) != 1:
        raise EngineError(f"the file has {len(definitions)} functions {name}, not one")
    return definitions[0]


def _branch(function: ast.FunctionDef, edit: Edit) -> ast.If:
    wanted = ast.unparse(ast.parse(edit.anchor, mode="eval"))
    branches = [node for node in ast.walk(function) if isinstance(node, ast.If) and ast.unparse(node.test) == wanted]
    return _one(branches, edit)


def _statement(function: ast.FunctionDef, edit: Edit) -> ast.Expr:
    """The statement that launches `anchor[grid](...)`."""
    statements = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and edit.anchor in _launched(node)]
    return _one(statements, edit)


def _launched(node: ast.Expr) -> Iterator[str]:
    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Subscript):
        yield ast.unparse(node.value.func.value)


def _one(found: list[N], edit: Edit) -> N:
    if len(found) != 1:
        raise EngineError(f"{edit.function} has {len(found)} places {edit.anchor!r}, not one")
    return found[0]


def _only_there(before: str, after: str, edit: Edit) -> None:
    try:
        changed = changed_functions(before, after)
    except SyntaxError as error:
        raise EngineError(f"the edit of {edit.function} does not parse: {error.msg}") from None
    if changed != {edit.function}:
        raise EngineError(f"the edit changes {', '.join(sorted(changed))}, not only {edit.function}")


def _statements(tree: ast.Module) -> dict[str, str]:
    statement_dumps: dict[str, str] = {}
    for place, node in enumerate(tree.body):
        name = node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else f"statement {place + 1}"
        statement_dumps[name if name not in statement_dumps else f"{name} ({place + 1})"] = ast.dump(node)
    return statement_dumps

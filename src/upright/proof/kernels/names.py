"""A statement of a Python file -> the names that it binds, refers to and imports."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement binds, inside `if`, `try` and `with` too."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (bound_name(alias) for alias in statement.names)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, (ast.If, ast.Try, ast.With, ast.For)):
        if isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING"):
            return
        for inner in ast.iter_child_nodes(statement):
            if isinstance(inner, ast.ExceptHandler):
                for deeper in inner.body:
                    yield from bound_by(deeper)
            elif isinstance(inner, ast.stmt):
                yield from bound_by(inner)


def inner_imports(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        for node in ast.walk(statement):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield node


def free_names(text: str) -> set[str]:
    """Module-level names that a statement refers to, as Python's own symbol table sees it."""
    referenced: set[str] = set()
    tables = [symtable.symtable(text, "statement", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            top = table.get_type() == "module"
            if symbol.is_referenced() if top else symbol.is_global():
                referenced.add(symbol.get_name())
    return {name for name in referenced if not hasattr(builtins, name)}


def bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def module_of(statement: ast.Import | ast.ImportFrom, alias: ast.alias, dotted: str, is_package: bool) -> str:
    if isinstance(statement, ast.Import):
        return alias.name if alias.asname else alias.name.split(".")[0]
    if not statement.level:
        return statement.module or ""
    parts = dotted.split(".")
    parts = parts[: len(parts) - statement.level + (1 if is_package and parts[-1] != "__init__" else 0)]
    return ".".join([*parts, *([statement.module] if statement.module else [])])


def as_written(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names=[alias]))
    return ast.unparse(ast.ImportFrom(module=statement.module, names=[alias], level=0))

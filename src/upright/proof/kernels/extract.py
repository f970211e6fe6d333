"""Small modules of an engine's launchers that import without the engine.

Nothing of the engine is imported: the syntax tree says which statements a launcher needs, in its own file and in the
files it imports from. Each file becomes one pruned module, in its own order, so that equal names never meet.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import symtable
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from upright.base.bounds.files import file_text
from upright.base.errors import EngineError
from upright.engines import ENGINES

_DECORATORS = {
    "triton",
    "jit",
    "functools",
    "lru_cache",
    "cache",
    "dataclass",
    "dataclasses",
    "property",
    "classmethod",
}
_IMPORTABLE = set(sys.stdlib_module_names) | {"triton"}


@dataclass(frozen=True)
class _Engines:
    """What stands for the modules of all engines; see the fields of `TritonKernels`."""

    standins: Mapping[str, str]
    real: Mapping[str, str]
    settings: Mapping[str, tuple[str, bool]]


@cache
def _engines() -> _Engines:
    known = [engine.kernels for engine in ENGINES.values() if engine.kernels]
    return _Engines(
        {"torch": "torch", **{key: entry for kernel_facet in known for key, entry in kernel_facet.standins.items()}},
        {key: entry for kernel_facet in known for key, entry in kernel_facet.real.items()},
        {key: entry for kernel_facet in known for key, entry in kernel_facet.settings.items()},
    )


@dataclass(frozen=True)
class Parameter:
    """One parameter of a launcher."""

    name: str
    required: bool


@dataclass(frozen=True)
class Extracted:
    """The pruned modules of one launcher."""

    entry: str
    """The module that holds the launcher."""
    launcher: str
    parameters: tuple[Parameter, ...]
    modules: Mapping[str, str]
    """Module name -> its text."""
    files: tuple[Path, ...]
    """The engine's files that were read."""

    @property
    def digest(self) -> str:
        """Changes exactly when a statement that the launcher needs changes."""
        content = "\0".join(f"{name}\0{text}" for name, text in sorted(self.modules.items()))
        return hashlib.sha256(content.encode()).hexdigest()


def extract(root: Path, file: Path, launcher: str, texts: Mapping[Path, str] | None = None) -> Extracted:
    """`root` is the directory that holds the engine's package; `texts` stand in place of files, as a patch would."""
    extraction = _Extraction(root, texts or {})
    source = extraction.open(file)
    definition = source.function(launcher)
    if definition is None:
        raise EngineError(f"{file} has no function {launcher}", hint="this engine version is not a known one")
    extraction.want(source, launcher)
    modules = {module_file.module: module_file.text() for module_file in extraction.files.values() if module_file.kept}
    return Extracted(source.module, launcher, _parameters(definition), modules, tuple(extraction.files))


class _Extraction:
    """All files of one extraction, and the walk from the launcher to everything it needs."""

    def __init__(self, root: Path, texts: Mapping[Path, str]) -> None:
        self.root = root
        self.texts = texts
        self.files: dict[Path, _File] = {}

    def open(self, path: Path) -> _File:
        if path not in self.files:
            dotted = ".".join(path.relative_to(self.root).with_suffix("").parts)
            self.files[path] = _File(path, dotted, self.texts.get(path))
        return self.files[path]

    def want(self, file: _File, name: str) -> None:
        """Keeps the statements of `file` that bind `name`, and whatever they need in turn."""
        if name in file.asked:
            return
        file.asked.add(name)
        for statement in file.bindings.get(name, ()):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                alias = next(import_alias for import_alias in statement.names if bound_name(import_alias) == name)
                file.imports[name] = self._import(file, statement, alias)
                file.kept.add(id(statement))
            elif id(statement) not in file.kept:
                file.kept.add(id(statement))
                for inner in inner_imports(statement):
                    for alias in inner.names:
                        file.imports[bound_name(alias)] = self._import(file, inner, alias)
                for needed in free_names(file.cleaned(statement)):
                    self.want(file, needed)

    def _import(self, file: _File, statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
        """The import statement that stands for this one in the pruned module."""
        name, module = bound_name(alias), module_of(statement, alias, file.dotted, file.is_package)
        key = module if isinstance(statement, ast.Import) else f"{module}:{alias.name}"
        top = module.split(".")[0]
        line = f"from payload.standins import missing; {name} = missing({name!r}, {module!r})"
        engines = _engines()
        if key in engines.real:
            line = engines.real[key]
        elif key in engines.standins:
            line = f"from payload.standins import {engines.standins[key]} as {name}"
        elif key in engines.settings:
            line = self._settings(file, name, *engines.settings[key])
        elif top in _IMPORTABLE:
            line = import_text(statement, alias)
        elif isinstance(statement, ast.ImportFrom) and (defining_file := self._defining(module, alias.name)):
            self.want(defining_file, alias.name)
            line = f"from payload.standins import lazily; {name} = lazily({defining_file.module!r}, {alias.name!r})"
        return line

    def _defining(self, module: str, name: str) -> _File | None:
        base = self.root.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                file = self.open(path)
                return file if name in file.bindings else self._starred(file, name)
        return None

    def _starred(self, file: _File, name: str) -> _File | None:
        for statement in file.tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                module = module_of(statement, statement.names[0], file.dotted, file.is_package)
                if defining_file := self._defining(module, name):
                    return defining_file
        return None

    def _settings(self, file: _File, name: str, module: str, wrapped: bool) -> str:
        """The switches that this file reads, at the defaults which the engine's own file states."""
        path = self.root.joinpath(*module.split(".")).with_suffix(".py")
        used = {
            node.attr
            for node in ast.walk(file.tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
        }
        stated = _stated_defaults(path) if path.is_file() else {}
        defaults = {switch: stated[switch] for switch in sorted(used) if switch in stated}
        call = f"Settings({module!r}, {defaults!r}, wrapped={wrapped})"
        return f"from payload.standins import Settings; {name} = {call}"


@dataclass
class _File:
    """One source file: which statement makes which name, and what is kept of it."""

    path: Path
    dotted: str
    replaced: str | None = None
    tree: ast.Module = field(init=False)
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    imports: dict[str, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.tree = ast.parse(file_text(self.path) if self.replaced is None else self.replaced)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise EngineError(f"{self.path} cannot be read as Python: {error}") from None
        for statement in self.tree.body:
            for name in bound_by(statement):
                self.bindings.setdefault(name, []).append(statement)

    @property
    def module(self) -> str:
        return self.dotted.replace(".", "__")

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def function(self, name: str) -> ast.FunctionDef | None:
        definitions = [statement for statement in self.bindings.get(name, ()) if isinstance(statement, ast.FunctionDef)]
        return definitions[-1] if definitions else None

    def cleaned(self, statement: ast.stmt) -> str:
        """Its text without what only the real engine needs; worked out once."""
        if id(statement) not in self.texts:
            self.texts[id(statement)] = ast.unparse(_Cleaner().visit(statement))
        return self.texts[id(statement)]

    def text(self) -> str:
        """The pruned module, in the order of the original."""
        parts: list[str] = []
        for statement in self.tree.body:
            if id(statement) not in self.kept:
                continue
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = (bound_name(alias) for alias in statement.names)
                parts += [self.imports[name] for name in names if name in self.imports]
            elif any(inner_imports(statement)):
                parts.append(ast.unparse(_WithImports(self.imports).visit(statement)))
            else:
                parts.append(self.cleaned(statement))
        return "\n\n".join(parts) + "\n"


class _Cleaner(ast.NodeTransformer):
    """Takes out what only the real engine needs: annotations of torch types, decorators of its runtime."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        jit = any(_callee(decorator) in ("triton.jit", "jit") for decorator in node.decorator_list)
        node.returns = None
        for argument in [
            *node.args.posonlyargs,
            *node.args.args,
            *node.args.kwonlyargs,
            node.args.vararg,
            node.args.kwarg,
        ]:
            if argument is not None and argument.annotation is not None:
                keep = jit and "constexpr" in ast.unparse(argument.annotation)
                argument.annotation = argument.annotation if keep else None
        node.decorator_list = [
            kept for decorator_node in node.decorator_list if (kept := _decorator(decorator_node, node.name))
        ]
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return node  # a class body may need them (NamedTuple); in functions nobody evaluates them


class _WithImports(ast.NodeTransformer):
    """Replaces imports inside a kept `try` or `if` by what stands for them."""

    def __init__(self, imports: Mapping[str, str]) -> None:
        self._imports = imports

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node  # imports inside a function run only if that branch does

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return self._replaced(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        return self._replaced(node)

    def _replaced(self, node: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
        lines = [self._imports[bound_name(alias)] for alias in node.names]
        return [statement for line in lines for statement in ast.parse(line).body]


def _decorator(node: ast.expr, function: str) -> ast.expr | None:
    callee = _callee(node)
    if callee.endswith("autotune"):
        configurations = _configurations(node)
        given = "" if configurations is None else f", lambda: {ast.unparse(configurations)}"
        standin = f"__import__('payload.standins').standins.autotuned({function!r}{given})"
        return ast.parse(standin, mode="eval").body
    return node if callee.split(".")[0] in _DECORATORS else None


def _configurations(node: ast.expr) -> ast.expr | None:
    """What @triton.autotune chooses from, as it is written; None where it throws some away by a function of its own."""
    if not isinstance(node, ast.Call) or any(child.arg == "prune_configs_by" for child in node.keywords):
        return None
    named = (child.value for child in node.keywords if child.arg == "configs")
    return next(named, node.args[0] if node.args else None)


def _callee(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _parameters(definition: ast.FunctionDef) -> tuple[Parameter, ...]:
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = len(positional) - len(arguments.defaults)
    parameters = [Parameter(argument.arg, index < optional) for index, argument in enumerate(positional)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return (*parameters, *(Parameter(argument.arg, default is None) for argument, default in pairs))


def _stated_defaults(path: Path) -> dict[str, Any]:
    """`NAME: bool = False` and `NAME = EnvBool(False)`, wherever the file states them."""
    stated: dict[str, Any] = {}
    for node in ast.walk(ast.parse(file_text(path))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, default = node.target.id, node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, default = node.targets[0].id, node.value
            default = default.args[0] if isinstance(default, ast.Call) and len(default.args) == 1 else None
        else:
            continue
        if isinstance(default, ast.Constant):
            stated.setdefault(name, default.value)
    return stated


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


def import_text(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names=[alias]))
    return ast.unparse(ast.ImportFrom(module=statement.module, names=[alias], level=0))

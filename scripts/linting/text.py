"""What our files say to people and to each other -> where it is wrong: words, commands, fields, engines' names."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import click

import upright
from upright.app.cli.verbs import SHOWN
from upright.engines import ENGINES
from upright.facts.records.base import Part
from upright.facts.records.fields import field_docs

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/upright"
STYLE = ROOT / "docs/style.md"
MAY_SPELL_ENGINES = (("engines",), ("facts", "catalog"))
ENGINE_NAME = re.compile(
    rf"(?<!o)(?:{'|'.join(sorted({re.escape(name.partition('.')[0]) for name in ENGINES}))})(?![-_]swap)", re.IGNORECASE
)
"""Ollama is none of them, nor is what swaps them."""
TEXTS = (".yaml", ".md", ".html", ".txt", ".toml")
PROSE = "binds|did|does|home|import|reads|wrote"
"""What a sentence about ourselves, or a line of Python, goes on with."""
NAMED = re.compile(rf"(?<!inet )\bupright (?!(?:{PROSE})\b)([a-z]+(?:-[a-z]+)*)((?:(?!upright)[^\n;,`'\"()])*)")
"""A verb, and the rest of what might be the command."""
PARSES_YAML = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load", "compose", "compose_all"}


def faults(among: Container[Path] | None = None) -> Iterator[str]:
    """Of all files, and of the records' fields; or of these files alone."""
    for path in files():
        if among is not None and path not in among:
            continue
        text, where = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if path.suffix == ".py":
            yield from (f"{where}{fault}" for fault in in_module(text, path.relative_to(SOURCE).parts))
            continue
        if path != STYLE and path.suffix in (".md", ".yaml"):
            yield from (f"{where}: says {phrase!r}" for phrase in unwanted(text))
        if path.name != "CHANGELOG.md":  # which names what was once
            yield from (f"{where}: no such command: {named}" for named in wrong_commands(text))
    if among is None:
        yield from undocumented_fields()


def files() -> list[Path]:
    """Whatever speaks to people: modules, rows, pages."""
    pages = (path for path in (*(ROOT / "docs").rglob("*"), *ROOT.glob("*.md")) if path.suffix in TEXTS)
    return sorted((*(path for path in SOURCE.rglob("*") if path.suffix in (".py", *TEXTS)), *pages))


def in_module(text: str, parts: tuple[str, ...]) -> Iterator[str]:
    tree = ast.parse(text)
    comments = re.findall(r"^\s*# (.*)$", text, re.MULTILINE)
    for said in (*_strings(tree), " ".join(comments)):
        yield from (f": says {phrase!r}" for phrase in unwanted(said))
    for said in _told(tree):
        yield from (f": no such command: {named}" for named in wrong_commands(said))
    if not any(parts[: len(room)] == room for room in MAY_SPELL_ENGINES):
        yield from (f":{line}: spells an engine: {spelled[:90]!r}" for line, spelled in engines_spelled(tree))
    if parts[-1] != "yaml12.py":
        yield from (f":{line}: parses YAML beside yaml12.py" for line in yaml_parsed(tree))


@cache
def phrases() -> tuple[tuple[str, re.Pattern[str]], ...]:
    table = STYLE.read_text().partition("| do not write | write |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [line.split("|")[1].strip() for line in table.splitlines()]
    return tuple((phrase, re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")) for phrase in listed)


def unwanted(text: str) -> list[str]:
    """What docs/style.md says not to write."""
    flat = " ".join(text.lower().split())
    return [phrase for phrase, pattern in phrases() if phrase in flat and pattern.search(flat)]


def wrong_commands(text: str) -> Iterator[str]:
    """Commands that a hint, a page or a row names and that are not shown, or not with these options."""
    for named in NAMED.finditer(text):
        verb, rest = named.groups()
        command = _command(verb)
        while isinstance(command, click.Group) and (below := re.match(r" ([a-z]+(?:-[a-z]+)*)", rest)):
            command, rest = command.get_command(click.Context(command), below[1]), rest[below.end() :]
        if command is None:
            yield named[0]
        elif verb != "explain" and not isinstance(command, click.Group):  # explain takes any words
            options = {word: given for given in command.params for word in (*given.opts, *given.secondary_opts)}
            if set(_asked(rest, options)) - set(options) - {"--help"}:
                yield named[0]


def _asked(rest: str, options: Mapping[str, click.Parameter]) -> Iterator[str]:
    """The options of a command; what an option is given may look like one (`--flag --threads=1`), and what stands
    behind `--` is another program's."""
    words = iter(re.findall(r"(?<=\s)\S+", rest.partition(" -- ")[0]))
    for word in words:
        if match := re.match(r"--[a-z-]+", word):
            yield match[0]
            given = options.get(match[0])
            if isinstance(given, click.Option) and not (given.is_flag or "=" in word):
                next(words, None)


def engines_spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """An engine's name is spelled in its own folder and in the catalogue's rows; elsewhere code asks the engine."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for text in _names(node, documentation):
            if ENGINE_NAME.search(text):
                yield getattr(node, "lineno", 0), text


def yaml_parsed(tree: ast.Module) -> Iterator[int]:
    """YAML is read and written in one place, so that `on` is the same word in every file."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=attr, value=ast.Name(id="yaml")) if attr in PARSES_YAML:
                yield node.lineno


def undocumented_fields() -> Iterator[str]:
    """A record's class says what it is, and a string of one line stands under each of its fields."""
    for part in _parts():
        docs = field_docs(part)
        where = f"{part.__module__}.{part.__name__}"
        if not part.__doc__:
            yield f"{where}: does not say what it is"
        for name in part.model_fields:
            if not docs.get(name, "").strip() or "\n" in docs[name]:
                yield f"{where}.{name}: has no string of one line under it"


@cache
def _command(verb: str) -> click.Command | None:
    """Of a verb that people are shown: what stands under another is named with it."""
    return import_module(f"upright.app.cli.{verb.replace('-', '_')}").command if verb in SHOWN else None


def _strings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _told(tree: ast.Module) -> Iterator[str]:
    """Strings, and formatted ones with their fields as X."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def _names(node: ast.AST, documentation: set[int]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)) if id(node) not in documentation:
            yield text
        case ast.Attribute(attr=text) | ast.Name(id=text) | ast.arg(arg=text) | ast.keyword(arg=str(text)):
            yield text
        case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
            yield text
        case ast.alias(name=text) | ast.ImportFrom(module=str(text)):
            yield text


def _parts() -> list[type[Part]]:
    for module in walk_packages(upright.__path__, "upright."):
        if "payload" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)
    parts: list[type[Part]] = []
    waiting = [Part]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("upright."):
                parts.append(kind)
    return sorted(parts, key=lambda kind: (kind.__module__, kind.__name__))

"""Every command that a hint, a page or a row of the catalogue names is there, with the options it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.conftest import ROOT
from upright.app.cli.main import VERBS

SOURCE = ROOT / "src/upright"
TEXTS = (".yaml", ".md", ".html", ".txt", ".toml")
FILES = sorted(
    path
    for path in (*SOURCE.rglob("*"), *(ROOT / "docs").rglob("*"), *ROOT.glob("*.md"))
    if path.suffix in (".py", *TEXTS) and path.name != "CHANGELOG.md"  # which names what was once
)
PROSE = "binds|did|does|home|import|reads|wrote"
"""What a sentence about ourselves, or a line of Python, goes on with."""
NAMED = re.compile(
    rf"(?<!inet )\bupright (?!(?:{PROSE})\b)([a-z]+(?:-[a-z]+)*)(?: ([a-z]+))?((?:(?!upright)[^\n;,`'\"()])*)"
)
"""A verb, the word after it, and the rest of what might be the command."""


def texts(path: Path) -> Iterator[str]:
    """What a file says to people: a string, or a formatted one with its fields as X."""
    if path.suffix in TEXTS:
        yield path.read_text()
        return
    tree = ast.parse(path.read_text())
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def wrong(text: str) -> Iterator[str]:
    for found in NAMED.finditer(text):
        verb, second, rest = found.groups()
        if verb not in VERBS:
            yield found[0]
            continue
        command = import_module(f"upright.app.cli.{verb.replace('-', '_')}").command
        if isinstance(command, click.Group) and second is not None:
            command = command.get_command(click.Context(command), second)
        if command is None:
            yield found[0]
            continue
        if verb == "explain":
            continue  # takes any words
        options = {
            option: parameter for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        if not isinstance(command, click.Group) and set(_asked(rest, options)) - set(options) - {"--help"}:
            yield found[0]


def _asked(rest: str, options: Mapping[str, click.Parameter]) -> Iterator[str]:
    """The options of a command; what an option is given may look like one (`--flag --threads=1`)."""
    words = iter(re.findall(r"(?<=\s)\S+", rest))
    for word in words:
        if match := re.match(r"--[a-z-]+", word):
            yield match[0]
            given = options.get(match[0])
            if isinstance(given, click.Option) and not (given.is_flag or "=" in word):
                next(words, None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_are_named_are_there(path: Path):
    assert [each for text in texts(path) for each in wrong(text)] == []


def test_a_command_that_is_not_there_is_found():
    said = "upright catalog models, then upright plan X --nowhere; upright plan X --box Y or upright wait"
    assert len(list(wrong(said))) == 3
    assert list(wrong("upright replay X --flag --threads=1")) == []
    assert list(wrong("upright replay X --threads=1"))


@pytest.mark.parametrize(
    "path", [SOURCE / "engines/vllm/constraints.yaml", ROOT / "docs/refusals.md", ROOT / "README.md"]
)
def test_every_place_that_speaks_to_people_is_looked_at(path: Path):
    assert path in FILES

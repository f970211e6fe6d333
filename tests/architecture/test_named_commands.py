"""Every command that a hint, a page or a row of the catalogue names is there, with the options it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.conftest import ROOT
from upright.cli.main import VERBS

SOURCE = ROOT / "src/upright"
FILES = sorted((*SOURCE.rglob("*.py"), *(SOURCE / "catalog").rglob("*.yaml")))
PROSE = "binds|did|does|home|reads|wrote"
"""What a sentence about ourselves goes on with."""
NAMED = re.compile(rf"\bupright (?!(?:{PROSE})\b)([a-z]+(?:-[a-z]+)*)(?: ([a-z]+))?((?:(?!upright)[^\n;,`'\"()])*)")
"""A verb, the word after it, and the rest of what might be the command."""


def texts(path: Path) -> Iterator[str]:
    """What a file says to people: a string, or a formatted one with its fields as X."""
    if path.suffix == ".yaml":
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
        command = import_module(f"upright.cli.{verb.replace('-', '_')}").command
        if isinstance(command, click.Group) and second is not None:
            command = command.get_command(click.Context(command), second)
        if command is None:
            yield found[0]
            continue
        if verb == "explain":
            continue  # takes any words
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        if not isinstance(command, click.Group) and set(re.findall(r"(?<=\s)--[a-z-]+", rest)) - options - {"--help"}:
            yield found[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_commands_that_are_named_are_there(path: Path):
    assert [each for text in texts(path) for each in wrong(text)] == []


def test_a_command_that_is_not_there_is_found():
    said = "upright catalog models, then upright plan X --nowhere; upright plan X --box Y or upright wait"
    assert len(list(wrong(said))) == 3

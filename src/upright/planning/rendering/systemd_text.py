"""How systemd writes words in a unit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from upright.base.errors import UsageError
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.rendering.quoting import escaped, one_line


def description(recipe: Recipe) -> str:
    return one_line(f"{recipe.served_name} served by {recipe.engine}").replace("%", "%%")


def unit_words(words: Iterable[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def variable(setting: Setting) -> str:
    """For Environment=."""
    return container_variable(setting).replace("$$", "$")


def container_variable(setting: Setting) -> str:
    """For Environment= of a Quadlet unit, which becomes words of ExecStart, where systemd expands $."""
    return _quoted(f"{setting.name}={setting.value or ''}")


def program_word(program: str) -> str:
    """First of ExecStart, where systemd wants a path and reads marks before it; env finds what is no plain path."""
    if re.fullmatch(r"/[A-Za-z0-9._/+@,-]*", program):
        return program
    if "=" in program or program.startswith("-"):
        raise UsageError(f"{program[:80]} cannot be started by a unit", hint="rename or link the engine")
    return f"/usr/bin/env {unit_words([program])}"


def _quoted(word: str) -> str:
    """systemd expands $ and %, and reads quotes and backslashes much as C does."""
    literal = word.replace("%", "%%").replace("$", "$$")
    if literal and literal.isprintable() and not any(char in literal for char in " \"'\\;{}()|"):
        return literal
    return '"' + escaped(literal).replace('"', '\\"') + '"'

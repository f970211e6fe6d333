"""Words -> how systemd writes them in a unit."""

from __future__ import annotations

from collections.abc import Iterable

from upright.records.recipe import Recipe, Setting
from upright.rendering.text import escaped, one_line


def description(recipe: Recipe) -> str:
    return one_line(f"{recipe.served_name} served by {recipe.engine}").replace("%", "%%")


def unit_words(words: Iterable[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def variable(setting: Setting) -> str:
    """For Environment=."""
    return _quoted(f"{setting.name}={setting.value or ''}").replace("$$", "$")


def _quoted(word: str) -> str:
    """systemd expands $ and %, and reads quotes and backslashes much as C does."""
    literal = word.replace("%", "%%").replace("$", "$$")
    if literal and literal.isprintable() and not any(each in literal for each in " \"'\\;{}()|"):
        return literal
    return '"' + escaped(literal).replace('"', '\\"') + '"'

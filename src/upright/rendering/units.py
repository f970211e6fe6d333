"""Words -> how systemd writes them in a unit."""

from __future__ import annotations

from collections.abc import Iterable

from upright.records.recipe import Setting


def unit_words(words: Iterable[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def variable(setting: Setting) -> str:
    """For Environment=."""
    return _quoted(f"{setting.name}={setting.value or ''}").replace("$$", "$")


def _quoted(word: str) -> str:
    """systemd expands $ and %, and reads quotes and backslashes much as C does."""
    escaped = word.replace("%", "%%").replace("$", "$$")
    if escaped and not any(each in escaped for each in " \t\"'\\;{}()|"):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'

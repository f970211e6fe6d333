"""A `-m` of marks -> the files of which it leaves nothing: they need not be imported, which takes 20 s a process."""

from __future__ import annotations

import re
from pathlib import Path

_ASKED = re.compile(r"(?:not )?\w+(?: and (?:not )?\w+)*")
_OF_ALL = re.compile(r"^pytestmark = (\[.*?\]|[^\n]*)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\bmark\.(\w+)")
BY_FOLDER = {"vllm": {"vllm", "engine"}, "mlx": {"engine"}}
"""Marks that a conftest gives to all of its folder."""
GIVEN = {"slow"}
"""Marks that a test may get without naming them (tests/drawn.py)."""


def leaves_nothing(asked: str, file: Path) -> bool:
    """Whether no test of this file can be wanted. Only expressions that are a plain row of marks are looked at."""
    if not _ASKED.fullmatch(asked):
        return False
    text, given = file.read_text(encoding="utf-8"), BY_FOLDER.get(file.parent.name, set())
    of_all = {name for row in _OF_ALL.findall(text) for name in _NAME.findall(row)} | given
    named = set(_NAME.findall(text)) | given | GIVEN
    return any(
        name.removeprefix("not ") in of_all if name.startswith("not ") else name not in named
        for name in asked.split(" and ")
    )

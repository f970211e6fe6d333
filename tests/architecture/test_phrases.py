"""docs/style.md holds: what it says not to write is written nowhere that a person reads."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

STYLE = ROOT / "docs/style.md"
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "src/upright").rglob("*.yaml"))
    if path != STYLE
]
MODULES = sorted((ROOT / "src/upright").rglob("*.py"))


def phrases() -> list[str]:
    table = STYLE.read_text().partition("| do not write | write |\n|---|---|\n")[2].partition("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()]


def unwanted(text: str) -> list[str]:
    flat = " ".join(text.lower().split())
    return [phrase for phrase in phrases() if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", flat)]


def test_the_table_is_read_and_finds():
    assert len(phrases()) > 25
    assert unwanted("It keeps experts\n  in Main memory.") == ["main memory", "experts in main memory"]
    assert unwanted("seconds in the middle of a question") == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src/upright")))
def test_no_string_of_ours_says_it_the_old_way(path: Path):
    """Strings and docstrings: pages, help and docs are made of them; comments as well."""
    tree = ast.parse(path.read_text())
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    comments = re.findall(r"^\s*# (.*)$", path.read_text(), re.MULTILINE)
    assert not {phrase for text in (*strings, " ".join(comments)) for phrase in unwanted(text)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_or_row_says_it_the_old_way(path: Path):
    assert not unwanted(path.read_text())

"""Pages, recipes, containers' words and the router's files, on the frozen catalogue; scripts/refresh writes them."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from tests.golden.layout import GOLDEN, layout

FOLDERS = ("pages", "recipes", "commands", "router")


def test_layout_is_as_recorded():
    made = layout()
    moved = [line for path, text in made.items() if _recorded(path) != text for line in _difference(path, text)]
    assert not moved, "\n".join([*moved, "next: scripts/refresh"])
    recorded = {path for folder in FOLDERS for path in (GOLDEN / folder).iterdir() if path.suffix != ".log"}
    assert recorded == made.keys()


def _recorded(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _difference(path: Path, text: str) -> list[str]:
    name = str(path.relative_to(GOLDEN))
    return [*unified_diff(_recorded(path).splitlines(), text.splitlines(), name, f"{name}, made now", lineterm="")]

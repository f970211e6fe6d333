"""Recorded failures -> the scoreboard of docs/diagnosing.md, between its two marks."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OWNED: tuple[str, ...] = ()
BEGIN, END = "<!-- generated: scripts/generate-docs -->", "<!-- end of what is generated -->"


def pages() -> dict[str, str]:
    sys.path.insert(0, str(ROOT))
    from tests.failure_board import board

    page = ROOT / "docs/diagnosing.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return {"docs/diagnosing.md": f"{before}{BEGIN}\n\n{board()}\n\n{END}{after}"}

"""Recorded failures, and what the engines' sources say -> the scoreboard of docs/diagnosing.md, between its marks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OWNED: tuple[str, ...] = ()
COVERAGE = ROOT / "tests/recordings/failures/coverage.json"
TELLS = ("cause", "class", "family", "topic", "consequence", "refusal", "none")
BEGIN, END = "<!-- generated: scripts/generate-docs -->", "<!-- end of what is generated -->"


def pages() -> dict[str, str]:
    sys.path.insert(0, str(ROOT))
    from tests.failure_board import board

    page = ROOT / "docs/diagnosing.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return {"docs/diagnosing.md": f"{before}{BEGIN}\n\n{board()}\n\n{coverage()}\n\n{END}{after}"}


def coverage() -> str:
    """How much of what engines can say a row knows, as `scripts/extract-failures` counted it."""
    counts: dict[str, dict[str, int]] = json.loads(COVERAGE.read_text())
    rows = [
        f"| {source} | {sum(told.values())} | {' | '.join(str(told.get(tells, 0)) for tells in TELLS)} |"
        for source, told in counts.items()
    ]
    head = [
        "Messages that an engine's source raises, asserts or logs as an error in its paths that load, cache, quantise, "
        "parse, distribute and read the command line (`scripts/extract-failures`), by how much the row tells that "
        "knows them; `refusal` and `none` are not covered:",
        "",
        f"| source | messages | {' | '.join(TELLS)} |",
        "|---|" + "---:|" * (len(TELLS) + 1),
    ]
    return "\n".join([*head, *rows])

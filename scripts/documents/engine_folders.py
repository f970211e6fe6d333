"""engines/NAME -> the table of docs/extending.md: how many lines an engine takes."""

from __future__ import annotations

from pathlib import Path

from upright.engines import OURS, engine_named

ROOT = Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- generated: scripts/generate-docs -->", "<!-- end of what is generated -->"
OWNED = ()


def pages() -> dict[str, str]:
    file = ROOT / "docs/extending.md"
    before, _, rest = file.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(("| engine | lines of Python | of rows |", "|---|---|---|", *(_line(name) for name in OURS)))
    return {"docs/extending.md": f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"}


def _line(name: str) -> str:
    folder = ROOT / "src/upright/engines" / OURS[name]
    python, rows = (sum(_lines(file) for file in folder.rglob(f"*.{kind}")) for kind in ("py", "yaml"))
    return f"| {engine_named(name).title} | {python:,} | {rows:,} |"


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())

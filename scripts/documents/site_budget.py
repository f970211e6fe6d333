"""tests/site/budget.json -> the table of docs/browser.md: what a visit costs."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- generated: scripts/measure-site, scripts/generate-docs -->", "<!-- end of what is generated -->"
OWNED = ()
_LINES = (
    ("page, styles, choices", "page_bytes", "{:,} bytes", "bytes, in every run"),
    ("the list of claims, when Evidence is opened", "evidence_bytes", "{:,} bytes", "bytes, in every run"),
    ("one first answer, planned when the site was built", "first_answer_bytes", "{:,} bytes", "bytes, in every run"),
    ("Upright's own rooms and catalogue, as the worker loads them", "rooms_bytes", "{:,} bytes", "bytes, in every run"),
    ("all that the worker loads once, with Python", "worker_bytes", "{:,} bytes", "bytes, in `.ci/full`"),
    ("modules imported before the worker is ready", "modules", "{:,}", "count, in every run"),
    ("calls of a warm plan (Kimi K2.6, a slider moved)", "plan_calls", "{:,}", "count, in every run"),
    ("the same plan in Chromium, as loops of 60 million turns", "plan_loops", "{}", "ratio, in `.ci/full`"),
    ("the same plan in Chromium", "plan_milliseconds", "{:,} ms", "printed in `.ci/full`"),
    ("worker ready, first visit at 20 Mbit/s", "cold_seconds", "{} s", "printed in `.ci/full`"),
    ("worker ready, second visit", "second_visit_seconds", "{} s", "printed in `.ci/full`"),
)


def pages() -> dict[str, str]:
    file = ROOT / "docs/browser.md"
    before, _, rest = file.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    budget = json.loads((ROOT / "tests/site/budget.json").read_text())
    rows = [f"| {name} | {shown.format(budget[key])} | {held} |" for name, key, shown, held in _LINES]
    table = "\n".join(("| | measured | a fifth more fails |", "|---|---|---|", *rows))
    return {"docs/browser.md": f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"}

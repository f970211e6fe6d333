"""What was found of engines -> the tables of docs/clients.md, between its two marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from upright.serving.connect.requirements import all_requirements, client_verdict

ROOT = Path(__file__).resolve().parent.parent.parent
OWNED: tuple[str, ...] = ()
BEGIN, END = "<!-- generated: scripts/conformance, scripts/generate-docs -->", "<!-- end of what is generated -->"
_SHOWN = {"passed": "yes", "unsupported": "no", "failed": "**broken**", "skipped": "not asked"}
_WORDS = 160


def pages() -> dict[str, str]:
    page = ROOT / "docs/clients.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    files = sorted((ROOT / "tests/recordings/conformance").glob("*.json"))
    tables = _tables([json.loads(file.read_text()) for file in files])
    return {"docs/clients.md": f"{before}{BEGIN}\n\n{tables}\n{END}{after}"}


def _tables(found: list[dict[str, Any]]) -> str:
    names = [f"{each['engine']} {each['engine_version']} ({each['date']})" for each in found]
    verdicts = [{check: item["verdict"] for check, item in each["checks"].items()} for each in found]
    lines = _table(
        ("client", *names),
        [(row.client, *(_faring(client_verdict(row, seen)) for seen in verdicts)) for row in all_requirements()],
    )
    checks = [check for check in dict.fromkeys(name for each in found for name in each["checks"]) if not _is_sum(check)]
    rows = [(check, *(_checked(each["checks"].get(check)) for each in found)) for check in checks]
    lines += ["", "By raw streams:", "", *_table(("check", *names), rows)]
    sdks = ", ".join(f"{name} {version}" for name, version in found[0]["sdks"].items()) if found else ""
    asked = dict.fromkeys(name for each in found for name in each["by_sdk"])
    rows = [(name, *(each["by_sdk"].get(name, "") for each in found)) for name in asked]
    return "\n".join([*lines, "", f"By the official SDKs for Python ({sdks}):", "", *_table(("SDK", *names), rows), ""])


def _faring(found: Any) -> str:
    return found.outcome + (f": {'; '.join(found.words)}" if found.words else "")


def _is_sum(check: str) -> bool:
    return check.startswith("for ")


def _checked(item: dict[str, str] | None) -> str:
    if item is None:
        return ""
    words = item["words"].split("{")[0].strip().rstrip(":").replace("|", "\\|")[:_WORDS]
    return _SHOWN[item["verdict"]] + ("" if item["verdict"] == "passed" else f": {words}")


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headings, ("---",) * len(headings), *rows)]

"""Throughput tables of field reports -> what `upright plan` prints for each line, and where a measured figure lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.base.yaml12 import from_yaml

FILE = Path(__file__).with_name("seed_tables.yaml")
NOT_KNOWN = "not known"


@dataclass(frozen=True)
class TableLine:
    """One line of a report's table."""

    report: str
    table: str
    line: str
    run: str
    options: tuple[str, ...]
    rate: str
    """Which of a plan's rates it is held against; empty for a figure that a plan does not print."""
    measured: float
    lies: str
    cause: str | None

    @property
    def name(self) -> str:
        return f"{self.report}: {self.line}"

    def printed(self) -> tuple[float, float] | None:
        """The band of the plan; None where it says not known."""
        return printed(self.options, self.rate)

    def lies_today(self) -> str:
        band = self.printed()
        if band is None:
            return NOT_KNOWN
        low, high = band
        return "below" if self.measured < low else "above" if self.measured > high else "inside"


@cache
def stated() -> dict[str, Any]:
    content: dict[str, Any] = from_yaml(FILE.read_text(encoding="utf-8"))
    return content


def lines() -> Iterator[TableLine]:
    for table in stated()["tables"]:
        for line in table["lines"]:
            rate = "full" if "user" in line else "prompt" if "prompt" in line else ""
            measured = float(line.get("user", line.get("prompt", 0.0)))
            options = (*line.get("options", ()), *table["options"])
            yield TableLine(
                table["report"], table["table"], line["line"], line["run"], options, rate, measured,
                line.get("is", "inside"), line.get("cause"),
            )  # fmt: skip


@cache
def printed(options: tuple[str, ...], rate: str) -> tuple[float, float] | None:
    done = CliRunner().invoke(cli, ["plan", *options, "--json"])
    assert done.stdout.startswith("{"), done.output
    speed = json.loads(done.stdout)["plans"][0]["speed"]
    band = speed[rate] if speed else None
    return (band["low"], band["high"]) if band else None

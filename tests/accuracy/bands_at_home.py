"""Published runs whose very setting a plan can name: model, build, box, engine, ranks, cache type, users."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from tests.accuracy.published_runs import argv, published
from upright.app.cli.main import cli
from upright.facts.catalog.rows.words import MeasurementRow

AT_HOME = "of this setting"
"""What the words of a band say that rests on runs of the plan's own setting."""


_WITHIN = re.compile(r"lie within (\d+)% of the others")
_DIFFER = re.compile(r"these differ by (\d+)%")
_PUBLISHERS = re.compile(r"two are (\d+)% apart")
_ROUNDED = 1.03


@dataclass(frozen=True)
class AtHome:
    """A run, and the band that is printed for its context."""

    row: MeasurementRow
    low: float
    high: float
    why: str

    @property
    def inside(self) -> bool:
        measured = (self.row.decode_tokens_per_second or 0.0) / (self.row.concurrency or 1)
        rounded = 0.05 if measured < 1000 else 0.5
        return self.low - rounded <= measured <= self.high + rounded

    @property
    def width(self) -> float:
        return self.high / self.low

    @property
    def as_wide_as_said(self) -> bool:
        """By the words of the page: how far runs of such settings or two publishers lie apart, and how far these do."""
        apart = 1 + float(found[1]) / 100 if (found := _DIFFER.search(self.why)) else 1.0
        level = 1 + float(found[1]) / 100 if (found := _WITHIN.search(self.why)) else 1.0
        machine = 1 + float(found[1]) / 100 if (found := _PUBLISHERS.search(self.why)) else 1.0
        return "the band holds both" in self.why or self.width <= _ROUNDED * max(apart * level**2, machine**2)


def runs() -> list[MeasurementRow]:
    """Of engines as they are released, without drafts: what a person can name."""
    return [
        row for row in published()
        if row.decode_tokens_per_second and row.kind != "aggregate" and row.speculation in (None, "none")
        and "-fork" not in row.engine
    ]  # fmt: skip


def asked(rows: list[MeasurementRow]) -> Iterator[tuple[MeasurementRow, AtHome | None]]:
    """None where no speed is known, or the band rests on other settings."""
    for row in rows:
        speed = _speed(argv(row))
        if speed is None or AT_HOME not in speed["why"]:
            yield row, None
            continue
        rate = speed["full" if row.context_tokens else "empty"]
        yield row, AtHome(row, rate["low"], rate["high"], speed["why"])


def _speed(words: list[str]) -> dict[str, Any] | None:
    done = CliRunner().invoke(cli, words)
    plans = json.loads(done.stdout)["plans"] if done.stdout.startswith("{") else []
    speed: dict[str, Any] | None = plans[0]["speed"] if plans else None
    return speed

"""What plans say of today's catalogue is what facts.csv has; scripts/refresh writes it."""

from __future__ import annotations

import pytest

from scripts.refreshing.moved import cells
from tests.golden.facts import BOXES, Row, facts, recorded


@pytest.mark.parametrize("box", BOXES)
def test_facts_are_as_recorded(box: str):
    moved = list(cells(_by_model(recorded(), box), _by_model(facts([box]), box)))
    assert not moved, "\n".join([*moved, "next: scripts/refresh"])


def _by_model(rows, box: str) -> dict[tuple[str, ...], Row]:
    return {(box, row["model"]): row for row in rows if row["box"] == box}

"""Which way to serve is taken: short trials put ways in order, long ones decide."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from upright.planning.sizing import answer


def chosen(monkeypatch: pytest.MonkeyPatch, ways: list[tuple[int | None, int | None]]) -> tuple[int, int | None]:
    """(which way, its boxes) of ways that need so many by short trials, and so many by long ones."""
    monkeypatch.setattr(answer, "rough_size", lambda demand, service, near: ways[service][0])
    sizes = [None if boxes is None else SimpleNamespace(boxes=boxes) for _, boxes in ways]

    def size(demand: object, service: int, *, near: int, on_trial: object, most: int | None = None) -> Any:
        boxes = ways[service][1]
        return sizes[service] if most is None or (boxes is not None and boxes <= most) else None

    monkeypatch.setattr(answer, "size", size)
    serving = [SimpleNamespace(service=number, at_once=number) for number in range(len(ways))]
    best, sized = answer.best_configuration(cast(Any, SimpleNamespace(router=None)), cast(Any, serving))
    return cast(int, best.service), None if sized is None else sized.boxes


@pytest.mark.parametrize(
    ("ways", "taken"),
    [
        ([(14, 14), (4, 4), (2, 2), (2, 2)], (2, 2)),
        ([(14, 14), (4, 4), (2, 3), (2, 1)], (3, 1)),
        ([(14, 14), (4, 4), (2, 9), (3, 3)], (3, 3)),
        ([(None, None), (5, 6), (5, 5), (5, 4)], (3, 4)),
        ([(14, 14), (2, 2), (3, 1), (4, 4)], (2, 1)),
        ([(14, 14), (1, 2), (2, 1)], (2, 1)),
        ([(None, None), (5, 5), (5, 5), (7, 7), (1, 1)], (1, 5)),
        ([(None, None), (None, None)], (0, None)),
    ],
    ids=[
        "the first of equals",
        "a tie by short trials",
        "short trials far off",
        "ties are tried by long ones",
        "one box worse by short trials",
        "one box by short trials alone",
        "two in vain end it",
        "nobody keeps it",
    ],
)
def test_where_short_trials_were_wrong_the_next_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, ways: list[tuple[int | None, int | None]], taken: tuple[int, int | None]
) -> None:
    assert chosen(monkeypatch, ways) == taken

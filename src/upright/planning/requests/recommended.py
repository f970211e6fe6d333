"""Plain arguments -> Recommendation: what `upright.recommend` is. No terminal, no disk and no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upright.facts.records.box import Box
from upright.facts.records.plan import Goal
from upright.facts.records.recommendation import Recommendation
from upright.facts.records.residuals import Residuals
from upright.planning.recommending.ranked import SHOWN as SHOWN
from upright.planning.recommending.ranked import recommend as recommended
from upright.planning.requests.library import box_record, goal_with


def recommend(
    box: str | Box,
    goal: Goal | None = None,
    *,
    most: int | None = SHOWN,
    measured: Sequence[Residuals] = (),
    **wishes: Any,
) -> Recommendation:
    """The best models of the catalogue for the box, ranked by published quality and by what holds.

    `most` of them, or all that fit if None. `wishes` are fields of `Goal` (`context_tokens=131_072, users=2`), laid
    over `goal` where both are given.
    """
    return recommended(box_record(box), goal_with(goal, wishes), most=most, measured=measured)

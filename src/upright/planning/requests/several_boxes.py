"""A name of several boxes, such as 2x-dgx-spark: the name of one, and a goal for so many as one model."""

from __future__ import annotations

from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.records.plan import Goal


def for_boxes_named(name: str | None, goal: Goal) -> tuple[str | None, Goal]:
    """What is not several boxes stays as it is."""
    named = catalog.several_boxes(name) if name is not None else None
    if named is None:
        return name, goal
    count, one = named
    if goal.nodes not in (1, count):
        raise UsageError(f"{name} are {count} boxes, and --nodes says {goal.nodes}", hint=f"--box {one} --nodes N")
    return one, goal.model_copy(update={"nodes": count})

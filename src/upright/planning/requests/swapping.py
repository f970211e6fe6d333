"""Models that share a box -> one file that loads what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.planning.placement.together import fit_together
from upright.planning.rendering.llama_swap import llama_swap_config


class SwappedModels(NamedTuple):
    """Each planned as if it were alone."""

    recipes: tuple[Recipe, ...]
    together: tuple[tuple[str, ...], ...]
    """Served names of those that fit at once."""
    config: str


def swapped_models(prepared: Sequence[tuple[Plan, Recipe]]) -> SwappedModels:
    recipes, together = tuple(recipe for _, recipe in prepared), fit_together([plan for plan, _ in prepared])
    names = tuple(tuple(recipes[place].served_name for place in places) for places in together)
    return SwappedModels(recipes, names, llama_swap_config(recipes, together))

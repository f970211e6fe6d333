"""A plan or a recipe, and an engine's rows -> what it must not do, and what it had better not."""

from upright.engines.constraints.judging import Breach, breaches, concerning, notes, refuse, told
from upright.engines.constraints.situation import Situation, circumstances, of_plan, of_recipe

__all__ = [
    "Breach",
    "Situation",
    "breaches",
    "circumstances",
    "concerning",
    "notes",
    "of_plan",
    "of_recipe",
    "refuse",
    "told",
]

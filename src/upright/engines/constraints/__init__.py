"""Constraints of engines: what a plan or a recipe must not do, and what it should not."""

from upright.engines.constraints.evaluation import (
    Breach,
    breach_notes,
    breach_summary,
    breaches,
    refuse_breaches,
    relevant_constraints,
)
from upright.engines.constraints.situation import Situation, circumstances, plan_situation, recipe_situation

__all__ = [
    "Breach",
    "Situation",
    "breach_notes",
    "breach_summary",
    "breaches",
    "circumstances",
    "plan_situation",
    "recipe_situation",
    "refuse_breaches",
    "relevant_constraints",
]

"""Box + Model + Goal -> [Plan], best first."""

from __future__ import annotations

from upright.errors import UsageError
from upright.planning.layers import plan_in_memory
from upright.records.box import Box
from upright.records.model import Model
from upright.records.plan import Goal, Plan

SAFE_CONTEXT_TOKENS = 65_536


def plan(box: Box, model: Model, goal: Goal | None = None) -> list[Plan]:
    """Ways to stand this model on this box, best first. A plan that does not fit says why in its objections."""
    goal = goal or Goal()
    if goal.users < 1:
        raise UsageError("a plan needs at least one user")
    if goal.engine not in (None, "llama.cpp"):
        raise UsageError(f"no planning yet for the engine {goal.engine}", hint="--engine llama.cpp")
    context = goal.context_tokens or start_context(model)
    return [plan_in_memory(box, model, goal, engine="llama.cpp", context_tokens=context)]


def start_context(model: Model) -> int:
    """The safe start: 65,536 tokens, or what the model was made for."""
    return min(SAFE_CONTEXT_TOKENS, model.architecture.context_limit_tokens or SAFE_CONTEXT_TOKENS)

"""Speed -> the lines that a plan's page shows of it, and every term for those who ask why."""

from __future__ import annotations

from upright.records.plan import Plan, Rate
from upright.units import tokens


def speed_pairs(plan: Plan) -> list[tuple[str, str]]:
    found = plan.speed
    if found is None:
        return [("speed", "not known: the catalogue has no constants for this engine and silicon")]
    users = "" if plan.goal.users == 1 else f" for each of {plan.goal.users} users"
    words = f"{rate(found.decode)} tok/s{users} with {tokens(found.context_tokens)} tokens in the cache"
    if found.decode.best is not None:
        words += f"; {rate(found.empty)} when empty, {rate(found.full)} when full"
    pairs = [("speed", words)]
    if found.prompt is not None:
        pairs.append(("", f"reads prompts at {rate(found.prompt)} tok/s"))
    if found.layer_worth is not None:
        pairs.append(("", f"one more layer of experts on the GPUs is worth {found.layer_worth:.2f} tok/s"))
    return pairs


def rate(found: Rate) -> str:
    """`73 (66 to 76)`, or `about 40 to 90` if only the band is known."""
    if found.best is None:
        return f"{_number(found.low)} to {_number(found.high)}"
    return f"{_number(found.best)} ({_number(found.low)} to {_number(found.high)})"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 30 else f"{value:,.0f}"

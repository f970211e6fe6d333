"""How uncertain a plan's figures are: the width of their bands, and where they come from."""

from __future__ import annotations

from upright.base.units import format_tokens
from upright.facts.records.plan import Plan


def band(plan: Plan) -> float | None:
    """The wider of its two bands as a share of the best figure; None where it has no speed at all."""
    speed = plan.speed
    if speed is None or speed.decode.best is None or not plan.kv.capacity_tokens:
        return None
    decode = (speed.decode.high - speed.decode.low) / speed.decode.best
    pool = (plan.kv.high_tokens - plan.kv.low_tokens) / plan.kv.capacity_tokens
    return max(decode, pool)


def uncertainty_key(plan: Plan) -> tuple[bool, bool, float]:
    """Sorts what is known least last: no figure at all, then figures from other boxes, then the wider band."""
    width = band(plan)
    elsewhere = plan.speed is None or plan.speed.basis != "measured"
    return width is None, elsewhere, width or 0.0


def prediction_words(plan: Plan) -> str:
    """`decode 60 tok/s (49-70, derived), KV cache 156,816 tokens (133,296-180,336)`.

    In system RAM an engine takes what was asked for, and not all that there is room for.
    """
    kv, speed = plan.kv, plan.speed
    in_ram = any(line.term == "kv_cache" and line.device == "host" for line in plan.ledger)
    pool = (
        f"{'room for a ' if in_ram else ''}KV cache {'of ' if in_ram else ''}{format_tokens(kv.capacity_tokens)} tokens"
    )
    if kv.low_tokens != kv.high_tokens:
        pool += f" ({format_tokens(kv.low_tokens)}-{format_tokens(kv.high_tokens)})"
    if speed is None:
        return f"decode not known, {pool}"
    rate = speed.decode
    best = f"{rate.best:.0f} tok/s " if rate.best is not None else ""
    return f"decode {best}({rate.low:.0f}-{rate.high:.0f}, {speed.basis}), {pool}"

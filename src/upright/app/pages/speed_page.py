"""Speed -> the lines that a plan's page shows of it; every term and every configuration for those who ask."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from upright.base.units import memory, tokens
from upright.facts.records.plan import Plan, Rate
from upright.planning.choosing.ranking import way_words


def speed_pairs(plan: Plan) -> list[tuple[str, str]]:
    speed = plan.speed
    if speed is None:
        why = next((note.message for note in plan.notes if note.code == "speed-unknown"), "speed is not known")
        return [("decode", why.removeprefix("speed is "))]
    users = "" if plan.goal.users == 1 else f" for each of {plan.goal.users} users"
    decode = f"{rate(speed.decode)} tok/s{users} at {tokens(speed.context_tokens)} context"
    if speed.decode.best is not None:
        decode += f"; {rate(speed.empty)} empty, {rate(speed.full)} full"
    else:
        decode += "; the acceptance rate is not known: --acceptance"
    pairs = [("decode", decode)]
    pairs.append(("prefill", "not known" if speed.prompt is None else f"{rate(speed.prompt)} tok/s"))
    if speed.layer_worth is not None:
        pairs.append(("", f"one more layer of experts on the GPUs adds {speed.layer_worth:.2f} tok/s"))
    fitted = "such boxes" if speed.basis == "measured" else "other boxes"
    return [*pairs, ("", f"derived from constants fitted on {fitted}: speeds/{speed.row}; --why shows every term")]


def why_lines(plan: Plan, width: int) -> Iterator[str]:
    """Every term of memory on the first of each kind of device, and of time."""
    yield "  Every term of memory:"
    for device in _devices(plan):
        for line in (ledger_line for ledger_line in plan.ledger if ledger_line.device == device):
            band = (
                "" if line.low_bytes == line.high_bytes else f" ({memory(line.low_bytes)} to {memory(line.high_bytes)})"
            )
            yield from _hanging(
                f"{line.why}{band} [{line.basis}]", f"  {device:<6}{line.term:<20}{memory(line.bytes):>9}  ", width
            )
    if plan.speed is None:
        return
    for step, title in (("decode", "a decode step"), ("prompt", "prefill")):
        terms = [term for term in plan.speed.terms if term.step == step]
        if terms:
            yield f"  Every term of {title}, {_ms(sum(term.milliseconds for term in terms))}:"
        for term in terms:
            yield from _hanging(term.why, f"  {term.term:<12}{_ms(term.milliseconds):>10}  ", width)
    yield from _hanging(plan.speed.why, "  band  ", width)


def table_lines(plans: Sequence[Plan], width: int) -> Iterator[str]:
    """Every configuration, best first. What does not fit says why."""
    rows = [_row(plan) for plan in plans]
    first = min(max(len(row[0]) for row in rows), max(24, width - 42))
    yield f"  {'configuration':<{first}} {'decode':>7} {'least':>6} {'prefill':>7} {'KV cache':>10}"
    for name, *figures, no in rows:
        head, *more = textwrap.wrap(name, first, break_on_hyphens=False) or [""]
        yield f"  {head:<{first}} {figures[0]:>7} {figures[1]:>6} {figures[2]:>7} {figures[3]:>10}".rstrip()
        yield from (f"    {line}" for line in more)
        if no:
            yield from _hanging(no, "    no: ", width)


def rate(found: Rate) -> str:
    """`73 (66-76)`, or `40-90` if only the band is known."""
    if found.best is None:
        return f"{_number(found.low)}-{_number(found.high)}"
    return f"{_number(found.best)} ({_number(found.low)}-{_number(found.high)})"


def _row(plan: Plan) -> tuple[str, str, str, str, str, str]:
    speed = plan.speed
    no = plan.objections[0].message if plan.objections else ""
    cache = tokens(plan.kv.low_tokens) if plan.kv.low_tokens else "none"
    if any(objection.code != "too-slow" for objection in plan.objections):  # such a speed will not be seen
        return way_words(plan), "-", "-", "-", cache, no
    if speed is None:
        return way_words(plan), "?", "?", "?", cache, no
    best = "?" if speed.decode.best is None else _number(speed.decode.best)
    prompt = "?" if speed.prompt is None or speed.prompt.best is None else _number(speed.prompt.best)
    return way_words(plan), best, _number(speed.decode.low), prompt, cache, no


def _devices(plan: Plan) -> list[str]:
    """The first of devices with the same ledger."""
    by_ledger: dict[tuple[tuple[str, int], ...], str] = {}
    for budget in plan.budgets:
        terms = tuple((line.term, line.bytes) for line in plan.ledger if line.device == budget.device)
        by_ledger.setdefault(terms, budget.device)
    held = list(by_ledger.values())
    return held if "host" in held else [*held, "host"]


def _hanging(words: str, first: str, width: int) -> Iterator[str]:
    lines = textwrap.wrap(words, max(24, width - len(first)), break_on_hyphens=False)
    for index, line in enumerate(lines or [""]):
        yield (first if index == 0 else " " * len(first)) + line


def _ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.2f} ms"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 30 else f"{value:,.0f}"

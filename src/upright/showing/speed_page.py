"""Speed -> the lines that a plan's page shows of it; every term for those who ask why, every way for those who ask."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from upright.planning.ranking import way_words
from upright.records.plan import Plan, Rate
from upright.units import memory, tokens


def speed_pairs(plan: Plan) -> list[tuple[str, str]]:
    found = plan.speed
    if found is None:
        why = next((note.message for note in plan.notes if note.code == "speed-unknown"), "speed is not known")
        return [("speed", why.removeprefix("speed is "))]
    users = "" if plan.goal.users == 1 else f" for each of {plan.goal.users} users"
    words = f"{rate(found.decode)} tok/s{users} with {tokens(found.context_tokens)} tokens in the cache"
    if found.decode.best is not None:
        words += f"; {rate(found.empty)} when empty, {rate(found.full)} when full"
    else:
        words += "; how many guesses are accepted is not known: say it with --acceptance"
    pairs = [("speed", words)]
    if found.prompt is not None:
        pairs.append(("", f"reads prompts at {rate(found.prompt)} tok/s"))
    if found.layer_worth is not None:
        pairs.append(("", f"one more layer of experts on the GPUs is worth {found.layer_worth:.2f} tok/s"))
    fitted = "on such boxes" if found.basis == "measured" else "on others"
    return [*pairs, ("", f"derived, by constants fitted {fitted}: speeds/{found.row}; --why shows every term")]


def why_lines(plan: Plan, width: int) -> Iterator[str]:
    """Every term of memory on the first of each kind of device, and of time."""
    yield "  Every term of memory:"
    for device in _devices(plan):
        for line in (each for each in plan.ledger if each.device == device):
            band = (
                "" if line.low_bytes == line.high_bytes else f" ({memory(line.low_bytes)} to {memory(line.high_bytes)})"
            )
            yield from _hanging(
                f"{line.why}{band} [{line.basis}]", f"  {device:<6}{line.term:<20}{memory(line.bytes):>9}  ", width
            )
    if plan.speed is None:
        return
    for step, title in (("decode", "a decode step"), ("prompt", "reading the prompt")):
        terms = [term for term in plan.speed.terms if term.step == step]
        if terms:
            yield f"  Every term of {title}, {_ms(sum(term.milliseconds for term in terms))}:"
        for term in terms:
            yield from _hanging(term.why, f"  {term.term:<12}{_ms(term.milliseconds):>10}  ", width)
    yield from _hanging(plan.speed.why, "  band  ", width)


def table_lines(plans: Sequence[Plan], width: int) -> Iterator[str]:
    """Every way, best first. What does not fit says why."""
    rows = [_row(plan) for plan in plans]
    first = min(max(len(row[0]) for row in rows), max(24, width - 42))
    yield f"  {'way':<{first}} {'tok/s':>7} {'sure':>6} {'prompt':>7} {'room':>10}"
    for name, *figures, no in rows:
        head, *more = textwrap.wrap(name, first, break_on_hyphens=False) or [""]
        yield f"  {head:<{first}} {figures[0]:>7} {figures[1]:>6} {figures[2]:>7} {figures[3]:>10}".rstrip()
        yield from (f"    {line}" for line in more)
        if no:
            yield from _hanging(no, "    no: ", width)


def rate(found: Rate) -> str:
    """`73 (66 to 76)`, or `40 to 90` if only the band is known."""
    if found.best is None:
        return f"{_number(found.low)} to {_number(found.high)}"
    return f"{_number(found.best)} ({_number(found.low)} to {_number(found.high)})"


def _row(plan: Plan) -> tuple[str, str, str, str, str, str]:
    found = plan.speed
    no = plan.objections[0].message if plan.objections else ""
    room = tokens(plan.kv.low_tokens) if plan.kv.low_tokens else "none"
    if any(objection.code != "too-slow" for objection in plan.objections):  # nobody will see that speed
        return way_words(plan), "-", "-", "-", room, no
    if found is None:
        return way_words(plan), "?", "?", "?", room, no
    best = "?" if found.decode.best is None else _number(found.decode.best)
    prompt = "?" if found.prompt is None or found.prompt.best is None else _number(found.prompt.best)
    return way_words(plan), best, _number(found.decode.low), prompt, room, no


def _devices(plan: Plan) -> list[str]:
    """The first of devices with the same ledger."""
    found: dict[tuple[tuple[str, int], ...], str] = {}
    for budget in plan.budgets:
        terms = tuple((line.term, line.bytes) for line in plan.ledger if line.device == budget.device)
        found.setdefault(terms, budget.device)
    held = list(found.values())
    return held if "host" in held else [*held, "host"]


def _hanging(words: str, first: str, width: int) -> Iterator[str]:
    lines = textwrap.wrap(words, max(24, width - len(first)), break_on_hyphens=False)
    for index, line in enumerate(lines or [""]):
        yield (first if index == 0 else " " * len(first)) + line


def _ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.2f} ms"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 30 else f"{value:,.0f}"

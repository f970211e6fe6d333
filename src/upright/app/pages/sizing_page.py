"""Sizing -> a page: how many boxes, what their users see, the bottleneck, and what every number rests on."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping

from upright.base.terminal.safe_output import style
from upright.base.units import format_duration, format_tokens
from upright.facts.records.box import Box
from upright.facts.records.sizing import Seen, Sizing
from upright.planning.sizing.capacity import ServiceObjective
from upright.planning.sizing.costs import unused_prices

_LABEL = 11


def sizing_page(made: Sizing, width: int, *, why: bool = False) -> str:
    return "\n".join([*_lines(made, width), *_habits(made, width, why)])


def _lines(made: Sizing, width: int) -> Iterator[str]:
    what = f" of {made.model}" if made.model else ""
    people = f"{made.users:,} {made.use} user{'s' if made.users > 1 else ''}"
    head, verdict = f"{people}{what}, {format_tokens(made.context_tokens)} tokens of context:", _boxes(made)
    yield from (
        [f"{head} {style(verdict, bold=True)}"]
        if len(head) + len(verdict) < width
        else (head, f"  {style(verdict, bold=True)}")
    )
    promise = made.promise
    yield from _pair(
        "promise",
        f"first token within {format_duration(promise.first_token_seconds)}, "
        f"{promise.tokens_per_second:g} tok/s or more, "
        f"for {promise.share:.0%}",
        width,
    )
    yield from _pair("spares", f"{made.spares}: {made.spares_why}", width)
    yield from _pair("binds", made.binds_why, width)
    for cost in made.costs:
        amount = f"{cost.value / 1000:,.1f} kW" if cost.unit == "W" else f"{cost.value:,.2f}"
        yield from _pair("", f"{cost.name}: {amount} ({cost.why}) [{cost.basis}]", width)
    yield ""
    yield f"  {'':<20}{'first token':>22}{'tok/s':>14}{'busy':>7}{'reused':>8}{'again':>7}"
    yield f"  {'':<20}{'p50':>11}{'p95':>11}{'p50':>7}{'p5':>7}"
    yield _row(f"{made.boxes:,} boxes" if made.boxes > 1 else "1 box", made.seen)
    if made.fewer is not None:
        missing = made.boxes - made.fewer.boxes
        yield _row("one fewer" if missing == 1 else f"{missing:,} fewer", made.fewer)
    yield _row("with spares, 1 fails" if made.spares else "1 fails", made.failing)
    if cut := made.failing.cut:
        yield f"  {'':<20}  it cuts {cut:,} stream{', which is' if cut == 1 else 's, which are'} asked again elsewhere"
    yield ""
    curve = made.curve
    yield from _pair("one box", f"{curve.why} [{curve.basis}]", width)
    first, last = curve.step_seconds[0], curve.step_seconds[-1]
    yield from _pair(
        "",
        f"{1 / first[1]:,.0f} tok/s alone, {1 / last[1]:,.1f} each of {last[0]:.0f}; reads "
        f"{curve.prompt_tokens_per_second:,.0f} tok/s; holds {format_tokens(curve.pool_tokens)} "
        f"tokens, {curve.streams} "
        f"stream{'s' if curve.streams > 1 else ''}",
        width,
    )
    for note in curve.notes:
        yield from _pair("", note, width)


def _habits(made: Sizing, width: int, why: bool) -> Iterator[str]:
    yield f"  What a user does (--usage changes it{'' if why else ', --why says where it comes from'}):"
    for name, figure in made.usage.items():
        source = f" {figure.source}" if why else ""
        yield from _pair("", f"{figure.value:g} [{figure.basis}]{source}", width, f"  {name:<23}")
    yield from _pair("", _simulated(made), width, "")


def _simulated(made: Sizing) -> str:
    if made.simulated_boxes >= made.boxes:
        return f"Simulated: {made.seen.turns:,} turns."
    error = "" if made.error_boxes is None else f"; other draws answer within {made.error_boxes:,} boxes of it"
    part = f"on {made.simulated_boxes:,} boxes with their share of the users"
    return f"Simulated: {made.seen.turns:,} turns {part}{error} (--exact: all)."


def _boxes(made: Sizing) -> str:
    count = f"{made.boxes:,} box{'es' if made.boxes > 1 else ''}"
    if made.curve.basis != "measured":
        top = f"{made.high_boxes:,}" if made.high_boxes is not None else "no number"
        count += f" ({made.low_boxes:,} to {top})"
    return f"{count} and {made.spares or 'no'} spare{'' if made.spares == 1 else 's'}"


def _row(name: str, seen: Seen) -> str:
    return (
        "  "
        f"{name:<20}{format_duration(seen.first_token_p50_seconds):>11}{format_duration(seen.first_token_p95_seconds):>11}"
        f"{seen.tokens_per_second_p50:>7.1f}{seen.tokens_per_second_p5:>7.1f}{seen.busy_percent:>6.0f}%"
        f"{seen.reused_percent:>7.0f}%{seen.reread_percent:>6.1f}%"
    )


def _pair(name: str, words: str, width: int, lead: str | None = None) -> Iterator[str]:
    first = f"{name:<{_LABEL}}" if lead is None else lead
    for index, line in enumerate(textwrap.wrap(words, max(24, width - 3 - len(first)), break_on_hyphens=False)):
        yield f"  {first if index == 0 else ' ' * len(first)}{line}"


def alone_sentence(promise: ServiceObjective, first: float, rate: float) -> str:
    """What even one user alone on a box has, where no number of boxes is enough."""
    within = f"first token within {format_duration(first)}, {rate:.1f} tok/s or more"
    return f"one user alone: {within}, for {promise.share:.0%}"


def reachable_slo_words(promise: ServiceObjective, first: float, rate: float) -> str:
    """For --slo: what was asked for, as far as one user alone has it with some room."""
    within = max(promise.first_token_seconds, math.ceil(12 * first) / 10)
    share = "" if promise.share == ServiceObjective.share else f",share={promise.share:g}"
    return f"ttft={within:g}s,rate={min(promise.tokens_per_second, int(0.8 * rate)):g}{share}"


def unused_sentence(box: Box | None, prices: Mapping[str, float], host_watts: float | None) -> str | None:
    """Prices that were given and are in no cost; None if all are."""
    if not (names := unused_prices(box, prices, host_watts)):
        return None
    is_or_are = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {is_or_are} in no cost: what the GPUs take is not known"

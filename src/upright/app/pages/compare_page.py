"""Comparison -> a table with a column for each case, in blocks that fit the page, and what each step buys."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from upright.base.units import format_duration, format_memory, format_size
from upright.facts.records.comparison import ComparedPlan, Comparison, Costs
from upright.facts.records.plan import Rate
from upright.planning.speed.turns import seconds_words

_LABEL, _LEAST = 18, 18


def compare_page(comparison: Comparison, width: int) -> str:
    return "\n".join(_lines(comparison, width))


def _lines(comparison: Comparison, width: int) -> Iterator[str]:
    goal, columns = comparison.goal, comparison.columns
    context = f", {goal.context_tokens:,} tokens of context" if goal.context_tokens else ""
    yield f"{goal.use}, {'1 user' if goal.users == 1 else f'{goal.users} users'}{context}"
    at_once = max(1, (width - _LABEL) // _LEAST)
    for start in range(0, len(columns), at_once):
        yield ""
        yield from _block(columns[start : start + at_once], width)
    yield from _reasons(columns, width)
    if comparison.steps:
        yield ""
        yield "What each step buys:"
    for step in comparison.steps:
        yield from textwrap.wrap(step, width - 1, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    if any(column.watts is not None and not column.watts_given for column in columns):
        footnote = "Watts are the limits of the GPUs, without the host: --watt says what the box takes."
        yield from textwrap.wrap(footnote, width - 1)
    if any(column.costs for column in columns):
        footnote = "Costs are by your prices at full use, for output tokens alone; a box that idles takes longer."
        yield from textwrap.wrap(footnote, width - 1)


def _block(columns: Sequence[ComparedPlan], width: int) -> Iterator[str]:
    column_width = min(30, (width - _LABEL) // len(columns))
    for label, cell in (*_ROWS, *(_COST_ROWS if any(column.costs for column in columns) else ())):
        cells = [cell(column) for column in columns]
        if all(text == "" for text in cells):
            continue
        wrapped = [textwrap.wrap(text, column_width - 1) or [""] for text in cells]
        for line in range(max(map(len, wrapped))):
            texts = "".join(f"{lines[line] if line < len(lines) else '':<{column_width}}" for lines in wrapped)
            yield f"{label if line == 0 else '':<{_LABEL}}{texts}".rstrip()


def _reasons(columns: Sequence[ComparedPlan], width: int) -> Iterator[str]:
    for column in columns:
        if column.why_not:
            reason = f"{column.model} on {column.box}: {column.why_not}"
            yield from textwrap.wrap(reason, width - 1, initial_indent="no ", subsequent_indent="   ",
                                     break_on_hyphens=False)  # fmt: skip


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "not known"
    best = f"{_number(rate.best)} " if rate.best is not None else ""
    return f"{best}({_number(rate.low)}-{_number(rate.high)})"


def _number(rate: float) -> str:
    return f"{rate / 1000:.1f}k" if rate >= 10_000 else f"{rate:,.0f}" if rate >= 20 else f"{rate:.1f}"


def _weights(column: ComparedPlan) -> str:
    native = ", native" if column.native else ""
    offloaded = f", {column.offloaded_layers} layers of experts in RAM" if column.offloaded_layers else ""
    return f"{column.bits:g} bits{native}{offloaded}"


def _if_fits(cell: Callable[[ComparedPlan], str]) -> Callable[[ComparedPlan], str]:
    return lambda column: cell(column) if column.fits else "-"


def _cost(cell: Callable[[Costs], float | None], form: Callable[[float], str]) -> Callable[[ComparedPlan], str]:
    def text(column: ComparedPlan) -> str:
        amount = cell(column.costs) if column.costs else None
        return "" if amount is None else form(amount)

    return text


def _break_even(column: ComparedPlan) -> str:
    costs = column.costs
    if costs is None or costs.purchase is None or costs.api_million is None:
        return ""
    if costs.break_even_tokens is None and column.fits and costs.kilowatt_hour and costs.energy_million is None:
        return "not known"
    if costs.break_even_tokens is None and column.fits:
        return f"never: {'its energy costs more than the API' if costs.energy_million else 'the API costs nothing'}"
    if costs.break_even_tokens is None:
        return "-"
    return f"{costs.break_even_tokens / 1e6:,.0f}M tokens"


def _money(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:,.2f}"


_ROWS: tuple[tuple[str, Callable[[ComparedPlan], str]], ...] = (
    ("box", lambda column: column.box),
    ("artifact", lambda column: column.model),
    ("engine", lambda column: column.engine),
    ("fits", lambda column: "yes" if column.fits else "no"),
    ("weights", _weights),
    ("download", lambda column: format_size(column.download_bytes)),
    ("VRAM", lambda column: format_memory(column.gpu_memory_bytes) if column.gpu_memory_bytes else "none"),
    ("longest context", _if_fits(lambda column: f"{column.largest_context_tokens:,}")),
    ("users", _if_fits(lambda column: f"{column.users_at_context} x {column.context_tokens:,}")),
    ("decode tok/s", _if_fits(lambda column: _rate(column.decode))),
    ("all users tok/s", _if_fits(lambda column: _rate(column.together))),
    ("prefill tok/s", _if_fits(lambda column: _rate(column.prompt))),
    ("first 20k tokens", _if_fits(lambda column: seconds_words(column.turn.first_answer if column.turn else None))),
    ("a warm turn", _if_fits(lambda column: seconds_words(column.turn.warm if column.turn else None))),
    ("watts", lambda column: f"{column.watts:,.0f}" if column.watts is not None else ""),
)
_COST_ROWS: tuple[tuple[str, Callable[[ComparedPlan], str]], ...] = (
    ("price", _cost(lambda costs: costs.purchase, _money)),
    ("  per tok/s", _cost(lambda costs: costs.purchase_per_token_per_second, _money)),
    ("  rent an hour", _cost(lambda costs: costs.rent_hour, _money)),
    ("tokens a joule", _cost(lambda costs: costs.tokens_per_joule, lambda amount: f"{amount:.3f}")),
    ("energy a million", _cost(lambda costs: costs.energy_million, _money)),
    ("rent a million", _cost(lambda costs: costs.rent_million, _money)),
    ("breaks even at", _break_even),
    ("  full use for", _cost(lambda costs: costs.break_even_hours, lambda amount: format_duration(amount * 3600)
                            if amount < 48 else f"{amount / 24:,.0f} days")),
)  # fmt: skip

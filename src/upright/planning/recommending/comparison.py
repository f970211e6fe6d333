"""Plans side by side: what each step up buys, and what it costs where prices are given.

No price is built in: purchase, rent, power and the price of an API are the person's own figures.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from upright.facts.catalog.fidelity import expert_bits, fidelity_of
from upright.facts.records.box import Box
from upright.facts.records.comparison import ComparedPlan, Costs
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan

MILLION = 1_000_000
HOUR = 3600.0
KILO = 1000.0


class Prices(NamedTuple):
    """What the person said of one box; None where nothing was said."""

    purchase: float | None = None
    rent_hour: float | None = None
    watts: float | None = None
    kilowatt_hour: float | None = None
    api_million: float | None = None
    """Of an API, for a million output tokens."""


def compared_plan(plan: Plan, model: Model, box: Box, prices: Prices) -> ComparedPlan:
    """One plan as a column."""
    speed = plan.speed if plan.fits else None
    together = speed.together.best if speed else None
    nodes, gpu_watts = plan.parallel.nodes, _gpu_watts(box)
    watts = prices.watts if prices.watts is not None else gpu_watts and nodes * gpu_watts
    return ComparedPlan(
        model=plan.model,
        box=plan.box,
        engine=plan.engine,
        fits=plan.fits,
        why_not=plan.objections[0].message if plan.objections else None,
        native=fidelity_of(model).level == "native",
        bits=round(expert_bits(model), 1),
        download_bytes=model.tensor_bytes,
        gpu_memory_bytes=nodes * int(sum(gpu.memory_bytes.value or 0 for gpu in box.gpus)),
        context_tokens=plan.context_tokens,
        largest_context_tokens=plan.largest_context_tokens if plan.fits else 0,
        users_at_context=plan.users_at_context if plan.fits else 0,
        cache_tokens=plan.kv.low_tokens if plan.fits else 0,
        decode=speed.decode if speed else None,
        together=speed.together if speed else None,
        prompt=speed.prompt if speed else None,
        turn=speed.turns[0] if speed and speed.turns else None,
        offloaded_layers=sum(len(place.layers) for place in plan.expert_places if place.device == "host"),
        watts=watts,
        watts_given=prices.watts is not None,
        costs=costs(together, watts, prices, serves=plan.fits),
    )


def costs(tokens_per_second: float | None, watts: float | None, prices: Prices, *, serves: bool = True) -> Costs | None:
    """None where no price was said. At full use: a box that idles half the day takes twice as long to pay off."""
    if not any((prices.purchase, prices.rent_hour, prices.kilowatt_hour, prices.api_million)):
        return None
    energy = _energy_million(tokens_per_second, watts, prices.kilowatt_hour)
    rent = _rent_million(tokens_per_second, prices.rent_hour)
    counted = serves and (energy is not None or not prices.kilowatt_hour)  # energy that is not known is not free
    tokens, hours = break_even(tokens_per_second, energy or 0.0, prices) if counted else (None, None)
    per_rate = prices.purchase / tokens_per_second if prices.purchase and tokens_per_second else None
    return Costs(
        purchase=prices.purchase,
        rent_hour=prices.rent_hour,
        kilowatt_hour=prices.kilowatt_hour,
        api_million=prices.api_million,
        energy_million=energy,
        rent_million=rent,
        purchase_per_token_per_second=per_rate,
        tokens_per_joule=tokens_per_second / watts if tokens_per_second and watts else None,
        break_even_tokens=tokens,
        break_even_hours=hours,
    )


def break_even(
    tokens_per_second: float | None, energy_million: float, prices: Prices
) -> tuple[float | None, float | None]:
    """Output tokens, and hours of full use, after which the box has cost as much as the API; None if it never does."""
    if prices.purchase is None or prices.api_million is None:
        return None, None
    saved = prices.api_million - energy_million
    if saved <= 0:
        return None, None
    tokens = prices.purchase / saved * MILLION
    return tokens, tokens / tokens_per_second / HOUR if tokens_per_second else None


def step_words(columns: Sequence[ComparedPlan], cases: Sequence[tuple[object, ...]]) -> list[str]:
    """What each column has that one before it has not, in words: the last that differs in one thing only.

    `cases` are the model, the box and the engine of each column, as they were asked for.
    """
    return [_step(columns, index, _before(cases, index)) for index in range(1, len(columns))]


def _before(cases: Sequence[tuple[object, ...]], index: int) -> int:
    """Two things that change at once tell of neither."""
    near = (other for other in reversed(range(index)) if sum(map(operator.ne, cases[other], cases[index])) <= 1)
    return next(near, index - 1)


def _step(columns: Sequence[ComparedPlan], index: int, earlier: int) -> str:
    before, after = columns[earlier], columns[index]
    moved = after.box != before.box
    lead = f"{after.box}, {after.model}" if moved else f"{after.model} with {after.engine}"
    if not moved and len({column.box for column in columns}) > 1:
        lead += f" on {after.box}"
    other = "the one before"
    if earlier != index - 1:
        other = before.box if moved else before.model
        lead += f" against {other}"
    if not after.fits:
        return f"{lead}: does not fit"
    if not before.fits:
        return f"{lead}: fits, which {other} does not"
    gains = [
        _times("context", before.largest_context_tokens, after.largest_context_tokens),
        _times("users", before.users_at_context, after.users_at_context),
        _times("decode", _best(before), _best(after)),
        "native weights" if after.native and not before.native else None,
        "no experts offloaded to CPU" if before.offloaded_layers and not after.offloaded_layers else None,
    ]
    return f"{lead}: {', '.join(gain for gain in gains if gain) or 'no more of anything'}"


def _times(name: str, before: float | None, after: float | None) -> str | None:
    if not before or not after or 0.95 < after / before < 1.05:
        return None
    return f"{after / before:.1f}x the {name}"


def _best(case: ComparedPlan) -> float | None:
    return case.decode.best if case.decode else None


def _energy_million(rate: float | None, watts: float | None, kilowatt_hour: float | None) -> float | None:
    if not rate or watts is None or kilowatt_hour is None:
        return None
    return watts / KILO * kilowatt_hour / (rate * HOUR) * MILLION


def _rent_million(rate: float | None, rent_hour: float | None) -> float | None:
    return rent_hour / (rate * HOUR) * MILLION if rate and rent_hour is not None else None


def _gpu_watts(box: Box) -> float | None:
    """The limit of all GPUs; the host is not counted."""
    limits = [gpu.power_limit_watts.value or gpu.power_limit_max_watts.value for gpu in box.gpus]
    return float(sum(watts for watts in limits if watts)) if limits and all(limits) else None

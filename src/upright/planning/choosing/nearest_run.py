"""Plan + Box -> the nearest published run, what sets it apart, and whether it lies in the plan's band.

The nearest by users, engine, draft, build, spread, cache type and context, not the highest: a speed belongs to its own
case. One store is asked, the catalogue's measurements; `plan` and `recommend` print what is found here.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from upright.base.units import format_tokens
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.published_rates import PublishedRate
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan, Rate, Speed
from upright.planning.speed.sibling_runs import differences, runs_of, runs_on

_ON_GITHUB = re.compile(r"https://github\.com/[^/]+/([^/]+)/(?:blob|tree)/[^/]+/(\S+)")
_SHORT_TOKENS = 2_048
"""Below this a context is as good as empty."""
_WEIGHTS = {"users": 2.0, "engine": 2.0, "a draft": 2.0, "build": 1.0, "TP": 1.0, "DCP": 0.25, "KV": 0.25, "fork": 0.25}
"""How far each difference is; a context that is twice as long is half of one."""


class NearestRun(NamedTuple):
    """A published run beside a plan."""

    seen: PublishedRate
    differences: tuple[str, ...]
    """What is known to set it apart from the plan."""
    band: tuple[float, float] | None
    """What the plan expects of so many requests with so much context; None where it does not say."""

    @property
    def outside(self) -> bool:
        return self.band is not None and not self.band[0] <= self.seen.tokens_per_second <= self.band[1]

    @property
    def words(self) -> str:
        """In one sentence, and where it was published."""
        seen = self.seen
        source = _ON_GITHUB.sub(r"\1 \2", seen.source)
        told = f"{run_words(seen)}; {source}, {seen.date} (measurements/{seen.id})"
        if self.differences:
            told += f"; not as planned: {', '.join(self.differences)}"
        return f"{told}; {self._judgement}" if self.outside and self.band is not None else told

    @property
    def _judgement(self) -> str:
        low, high = self.band or (0.0, 0.0)
        side = "above" if self.seen.tokens_per_second > high else "below"
        why = (
            "which the band does not cover" if self.differences else "though nothing that is known of it differs: bench"
        )
        return f"{side} the {_rate(low)} to {_rate(high)} tok/s that are expected there, {why}"


def nearest_run(plan: Plan, model: Model, box: Box) -> NearestRun | None:
    """Of this model, on as many GPUs of the kind, of those as near the latest; None if nothing was published."""
    row = row_of(model)
    if row is None or not box.gpus or plan.parallel.nodes > 1:
        return None
    latest_first = sorted(sorted(runs_of(row, box), key=lambda seen: seen.id), key=lambda seen: seen.date, reverse=True)
    near = min(latest_first, key=lambda seen: _distance(seen, plan, model), default=None)
    if near is None:
        return None
    return NearestRun(near, tuple(words for _, words, _ in differences(near, plan, model)), _band(near, plan))


def plainest_run(box: Box) -> PublishedRate | None:
    """Of whatever model: one request and no draft come first, then a context as it is usual."""

    def plainness(seen: PublishedRate) -> tuple[object, ...]:
        return seen.concurrency != 1, bool(seen.speculation), abs(seen.context_tokens - 32_768), seen.id

    return min(runs_on(box, None), key=plainness, default=None)


def run_words(seen: PublishedRate) -> str:
    """`73.4 tok/s, 1 request, 32,768 context, vllm-fork, TP8 DCP1`."""
    requests = "1 request" if seen.concurrency == 1 else f"{seen.concurrency} requests together"
    context = f"{format_tokens(seen.context_tokens)} context" if seen.context_tokens else "empty context"
    how = (seen.engine, seen.parallelism, f"{seen.kv_dtype} KV" if seen.kv_dtype else "", seen.speculation)
    return f"{seen.tokens_per_second:g} tok/s, {requests}, {context}, {', '.join(part for part in how if part)}"


def _distance(seen: PublishedRate, plan: Plan, model: Model) -> tuple[float, float]:
    """How far, and of those as far how far by context."""
    middle = plan.speed.context_tokens if plan.speed else plan.context_tokens // 2
    apart = abs(math.log2((seen.context_tokens + _SHORT_TOKENS) / (middle + _SHORT_TOKENS)))
    return sum(_WEIGHTS[kind] * times for kind, _, times in differences(seen, plan, model)) + apart / 2, apart


def _band(seen: PublishedRate, plan: Plan) -> tuple[float, float] | None:
    """Of all its requests, at its context."""
    if plan.speed is None or seen.concurrency != plan.goal.users or seen.context_tokens > plan.context_tokens:
        return None
    rate = _at(plan.speed, seen.context_tokens, plan.context_tokens)
    return seen.concurrency * rate.low, seen.concurrency * rate.high


def _at(speed: Speed, context: int, whole: int) -> Rate:
    """Milliseconds of a step grow evenly with what is in the cache."""
    middle = speed.context_tokens
    near, far = (speed.empty, speed.decode) if context <= middle else (speed.decode, speed.full)
    start, end = (0, middle) if context <= middle else (middle, whole)
    share = (context - start) / (end - start) if end > start else 0.0

    def between(one: float, other: float) -> float:
        return 1 / ((1 - share) / one + share / other) if one and other else 0.0

    return Rate(best=None, low=between(near.low, far.low), high=between(near.high, far.high))


def _rate(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"

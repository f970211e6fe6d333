"""How many boxes a number of users needs under an SLO, or why no number is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from upright.base.errors import UprightError, UsageError
from upright.engines import first_with_slots
from upright.facts.catalog import get
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.plan import Parallel, Use
from upright.facts.records.sizing import Sizing
from upright.planning.choosing.routing import router_policy
from upright.planning.requests.plan_request import ArtifactChoice, PlanRequest, plan_request
from upright.planning.sizing.answer import OnTrial, ServingBox, best_configuration, sizing
from upright.planning.sizing.capacity import ServiceDemand, ServiceObjective, trial
from upright.planning.sizing.planned_service import UnknownSpeedError, fills_gpu_memory
from upright.planning.sizing.serving_boxes import planned_serving_box
from upright.planning.sizing.usage_figures import usage_figures, usage_of

CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64)
"""Requests at once that a box is planned for, until it has no room for so many."""


@dataclass(frozen=True)
class SizeRequest:
    """Who shall be served, and how well."""

    users: int
    use: Use
    promise: ServiceObjective
    habits: Mapping[str, float] = field(default_factory=dict)
    """What these people do, where it is not what the catalogue's do."""
    prices: Mapping[str, float] = field(default_factory=dict)
    host_watts: float | None = None
    seed: int = 0
    spares: int | None = None
    """Boxes beside those that are needed; None: what failures ask for, none where fewer than three serve."""
    exact: bool = False
    """Every box is simulated, however many."""


@dataclass(frozen=True)
class SizedFleet:
    """The answer, and the way to serve that it is for."""

    demand: ServiceDemand
    serving: ServingBox
    sizing: Sizing | None
    """None if one user alone on a box is not served as promised."""

    def alone(self) -> tuple[float, float]:
        """Seconds to the first token and tokens a second that one user alone has, for the promised share of turns."""
        share = self.demand.promise.share
        outcome = trial(replace(self.demand, users=1), self.serving.service, 1)
        rate = outcome.tokens_per_second.quantile(1 - share)
        return outcome.first_token_seconds.quantile(share) or 0.0, rate or 0.0


def slo_of(figures: Mapping[str, float]) -> ServiceObjective:
    """Of `ttft`, `rate` and `share`; what is not said is as usual."""
    usual = ServiceObjective()
    promise = ServiceObjective(
        figures.get("ttft", usual.first_token_seconds),
        figures.get("rate", usual.tokens_per_second),
        figures.get("share", usual.share),
    )
    if not 0 < promise.share < 1 or promise.first_token_seconds <= 0 or promise.tokens_per_second < 0:
        raise UsageError("a promise is a time, a rate and a share below 1", hint="--slo ttft=5s,rate=20,share=0.95")
    return promise


def size_request(request: SizeRequest, ways: Iterable[ServingBox], *, on_trial: OnTrial | None = None) -> SizedFleet:
    """Whichever way needs the fewest boxes."""
    row = get("usages", request.use)
    assert isinstance(row, UsageRow)
    figures = usage_figures(row, request.habits)
    remaining = iter(ways)
    first = next(remaining)
    usage = usage_of(row, figures, first.context_tokens)
    router = router_policy(
        request.use, shared_tokens=usage.shared_tokens, opening_tokens=request.habits.get("opening_tokens")
    )
    demand = ServiceDemand(request.users, usage, request.promise, request.seed, exact=request.exact, router=router)
    serving, size = best_configuration(demand, chain([first], remaining), on_trial=on_trial)
    if size is None:
        return SizedFleet(demand, serving, None)
    made = sizing(
        demand,
        request.use,
        serving,
        figures,
        prices=request.prices,
        host_watts=request.host_watts,
        found=size,
        asked_spares=request.spares,
        on_trial=on_trial,
    )
    return SizedFleet(demand, serving, made)


def planned_configurations(
    request: PlanRequest, *, streams: int | None = None, as_it_is: bool = False
) -> Iterator[ServingBox]:
    """How one box may serve: planned for one request at once, for two, for four, as far as that fits.

    For `streams` at once only, where they are given; `as_it_is` for those of the goal only.
    """
    # One build, whatever the load: another one that fits more is a way of its own, and has to be asked for.
    request = replace(request, choice=ArtifactChoice(plan_request(request).artifact))
    if request.goal.context_tokens is None:
        request = _with_the_uses_context(request)
    tried = CONCURRENCIES if streams is None and not as_it_is else (streams or request.goal.users,)
    why = "which needs the fewest of those tried" if len(tried) > 1 else "as asked"
    known: list[tuple[Parallel, int]] = []
    for at_once in tried:
        planned = plan_request(request.with_users(at_once))
        best = planned.best
        if not best.fits and known:
            return
        if not best.fits:
            raise UprightError(
                f"{best.model} does not fit on {best.box}: {best.objections[0].message}",
                hint="upright plan says what would",
            )
        if streams is not None and fills_gpu_memory(best):
            raise UsageError(
                f"--streams is not for {best.engine}: it runs as many as its cache has room for",
                hint=f"leave it out, or plan --engine {first_with_slots()}",
            )
        way = (best.parallel, 0 if fills_gpu_memory(best) else best.kv.planned_tokens)
        if way in known:
            continue
        try:
            serving = planned_serving_box(best, planned.artifact, request.box, at_once, why)
        except UnknownSpeedError:
            if not known:
                raise
            return
        known.append(way)
        yield serving


def _with_the_uses_context(request: PlanRequest) -> PlanRequest:
    """What conversations of this use grow to; what the plan begins with where that does not fit."""
    row = get("usages", request.goal.use)
    assert isinstance(row, UsageRow)
    limit = request.choice.model.architecture.context_limit_tokens
    wanted = int(row.context_tokens.value or 0)
    asked = replace(request, goal=request.goal.model_copy(update={"context_tokens": min(wanted, limit or wanted)}))
    return asked if plan_request(asked).best.fits else request

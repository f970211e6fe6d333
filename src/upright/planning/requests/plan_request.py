"""A PlanRequest, planned: which artifact, in which configurations, best first.

No host, no disk and no network: what is not in the catalogue comes as a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from upright.base.errors import EngineError
from upright.facts.records.plan import Goal, Nearest, Plan
from upright.planning.choosing import plan
from upright.planning.choosing.agent_cache import with_agent_notes
from upright.planning.choosing.artifacts import ArtifactChoice as ArtifactChoice
from upright.planning.choosing.artifacts import own_quant_plan, smaller_models
from upright.planning.choosing.engine_constraints import FORBIDDEN
from upright.planning.choosing.nearest import ARTIFACT_OPTIONS, RANK_OPTIONS
from upright.planning.choosing.placements import Placement, placements
from upright.planning.placement.devices import RAM_NOT_SPECIFIED
from upright.planning.placement.engine_support import NO_CACHE_TYPE, ranks_of
from upright.planning.placement.host_tier import TOO_LARGE, TOO_SMALL, with_host_cache

if TYPE_CHECKING:
    from upright.facts.records.box import Box
    from upright.facts.records.kernel import KernelVerdict
    from upright.facts.records.model import Model
    from upright.facts.records.residuals import Residuals

_SETTLED = (FORBIDDEN, TOO_SMALL, TOO_LARGE, NO_CACHE_TYPE)
"""Objections that end with another option."""
_OPTION = re.compile(r"--[a-z-]+( [\w.]+)?")


@dataclass(frozen=True)
class PlanRequest:
    """What somebody wants planned."""

    choice: ArtifactChoice
    """The model, with the artifacts of it that may be taken or offered instead."""
    box: Box
    goal: Goal = field(default_factory=Goal)
    measured: Sequence[Residuals] = ()
    """What earlier starts showed; planning decides what of it still holds."""
    verdicts: Sequence[KernelVerdict] = ()
    """What was found out about kernels on this silicon."""
    agents: int | None = None
    """Conversations that should stay warm, beside the users who decode at once; None: nobody asked."""
    host_cache_bytes: int | None = None
    """System RAM for the engine's host tier behind the KV cache; None: nobody asked."""

    def with_users(self, users: int) -> PlanRequest:
        return replace(self, goal=self.goal.model_copy(update={"users": users}))

    def ram_may_decide(self, best: Plan) -> bool:
        """Whether it does not fit the GPUs alone, and the box's system RAM is open."""
        codes = {objection.code for objection in best.objections}
        # Beside GPUs only experts are put into system RAM; what needs it in any case says so itself.
        experts = self.choice.model.architecture.experts is not None
        too_large = RAM_NOT_SPECIFIED in codes or (experts and "weights-too-large" in codes)
        return too_large and self.box.memory_bytes.value is None and _takes_ram(self.goal)


class PlannedRequest(NamedTuple):
    """A request and its plans."""

    request: PlanRequest
    plans: Sequence[Plan]
    """Best first, never none."""

    @property
    def best(self) -> Plan:
        return self.plans[0]

    @property
    def artifact(self) -> Model:
        """The one that the best plan is for."""
        choice = self.request.choice
        return next(model for model in (choice.model, *choice.choose_from) if model.name == self.best.model)

    def offers(self) -> list[Nearest]:
        """What would fit, where that can be asked for or follows from leaving the ranks out."""
        return [offer for offer in self.best.nearest if offer.options or offer.artifact or self.ranks_refused]

    @property
    def ram_unknown(self) -> bool:
        """Whether it does not fit the GPUs alone, nothing else is offered for this box, and its system RAM is open."""
        if not self.request.ram_may_decide(self.best):
            return False
        offers = self.offers()
        return not (offers and offers[0].artifact is None and "--box" not in offers[0].options)

    @property
    def ranks_refused(self) -> bool:
        """Then what would fit is the same without them, which no option says."""
        return any(objection.code == "no-ranks" for objection in self.best.objections)

    def dropped_by(self, offer: Nearest) -> tuple[str, ...]:
        """Fields of the goal that an offer gives up."""
        return ARTIFACT_OPTIONS if offer.artifact else RANK_OPTIONS if self.ranks_refused else ()

    def remedies(self) -> tuple[str, ...]:
        """`--dcp 1`: options that end every objection, where nothing but options stands against the plan."""
        objections = self.best.objections
        options = [objection.remedy or "" for objection in objections if objection.code in _SETTLED]
        ended = len(options) == len(objections) and all(_OPTION.fullmatch(option) for option in options)
        return tuple(dict.fromkeys(options)) if ended else ()

    def placements(self) -> tuple[Placement, ...]:
        """The best plan's experts placed otherwise, where some of them are in system RAM."""
        request = self.request
        return placements(self.best, self.artifact, request.box, request.verdicts, request.measured)

    def answer(self, plans: Sequence[Plan], placed: Sequence[Placement]) -> dict[str, Any]:
        """What `--json` prints of so many of the plans."""
        beside = {"placements": [each.to_dict() for each in placed]} if placed else {}
        return {"fits": self.best.fits, "plans": [{**way.to_dict(), "fits": way.fits} for way in plans], **beside}

    def instead(self) -> list[Plan]:
        """Smaller models that fit, where this one does not and no offer or option keeps what was asked."""
        return smaller_models(self.request.box, self.request.goal, self.request.choice.model) if self._lost else []

    def of_own_type(self) -> Plan | None:
        """This model as a GGUF of a type of fewer bits, where smaller models would be offered and it fits."""
        return own_quant_plan(self.request.box, self.request.goal, self.request.choice.model) if self._lost else None

    @property
    def _lost(self) -> bool:
        if self.best.fits or self.remedies():
            return False
        offers = self.offers()
        return not offers or offers[0].options[:1] == ("--min-speed",)


def ram_wanted(plan: Plan) -> tuple[str, ...]:
    """`--ram 64GB`: as much as the plan says that it needs, or else as large machines have."""
    asked = (no.remedy for no in plan.objections if no.code == RAM_NOT_SPECIFIED and no.remedy)
    return tuple(next(asked, "--ram 512GB").split())


def ram_words(model: Model) -> str:
    """What system RAM that nobody gave may change."""
    return "experts offloaded to CPU may fit" if model.architecture.experts else "this model may fit"


def _takes_ram(goal: Goal) -> bool:
    """Whether a way that was asked for can leave experts in system RAM; ranks that are counted cannot."""
    if goal.engine is None:
        return not goal.ranks_asked
    ranks = ranks_of(goal.engine)
    return ranks is None or ranks.host_experts is not None


def plan_request(request: PlanRequest, advise: Callable[[Plan], bool] = lambda best: True) -> PlannedRequest:
    """Every way, best first; one that does not fit says why not. `advise` is as for `plan`."""
    choice = request.choice
    plans = plan(
        request.box,
        choice.model,
        request.goal,
        choose_from=choice.choose_from,
        others=choice.others,
        verdicts=request.verdicts,
        measured=request.measured,
        advise=advise,
    )
    if not plans:
        raise EngineError("no engine can serve this model")
    if request.host_cache_bytes is not None:
        tiered = [with_host_cache(way, request.box, request.host_cache_bytes) for way in plans]
        plans = sorted(tiered, key=lambda way: not way.fits)
    if request.agents is not None:
        plans = [with_agent_notes(way, request.box, request.agents) for way in plans]
    return PlannedRequest(request, plans)

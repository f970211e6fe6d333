"""A running endpoint -> Evidence, rung by rung; the climb ends at the first rung that fails.

What was seen before an interruption is handed in again and is not asked twice. A budget leaves out what does not fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from upright.base import units
from upright.base.errors import EndpointError, UsageError
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.recipe import Recipe
from upright.facts.records.reference import Reference
from upright.proof.ladder.asking import Slot, note
from upright.proof.ladder.estimating import (
    AFTER_LEFT_OUT,
    Group,
    ProbeCost,
    ScheduledGroup,
    Timed,
    choose,
    unaffordable,
)
from upright.proof.ladder.prompts import PromptSet
from upright.proof.ladder.rung import LadderRung, Probe, ProofTarget, SoakWish, Stand
from upright.proof.ladder.rungs import RUNGS
from upright.serving.endpoint.client import Endpoint

OnObservation = Callable[[Observation], None]
OnSchedule = Callable[[list[ScheduledGroup]], None]
_SAFE_CONTEXT = 65_536
"""The context of the safe start, if none is named."""
_LONG_SECONDS = 60.0
"""A group of questions that takes longer is announced with its time."""
MEASURES = "boot"
"""The rung that measures rates; before it nothing can be estimated."""


def rung_names() -> tuple[str, ...]:
    return tuple(rung.name for rung in RUNGS)


def target_of(deployment: Deployment, recipe: Recipe | None = None) -> ProofTarget:
    return ProofTarget(
        name=deployment.name,
        reference=recipe.reference if recipe else next(iter(deployment.made_from), deployment.reference),
        context_tokens=deployment.context_tokens,
        users=recipe.users if recipe else 1,
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        recipe=recipe,
        deployment=deployment,
    )


def prove(
    target: ProofTarget | Deployment,
    endpoint: Endpoint,
    prompts: PromptSet,
    *,
    to: str = "smoke",
    rungs: Iterable[str] | None = None,
    budget_seconds: float | None = None,
    samples: int = 1,
    soak: SoakWish = SoakWish(),  # noqa: B008 (frozen)
    reference: Reference | None = None,
    seen: Iterable[Observation] = (),
    on_observation: OnObservation | None = None,
    on_schedule: OnSchedule | None = None,
    tell: Callable[[str], None] = lambda words: None,
    known: Mapping[str, Timed] | None = None,
) -> Evidence:
    """Climb up to and including `to`, or only `rungs`. Each observation is handed on as it is made, so none is lost."""
    if isinstance(target, Deployment):
        target = target_of(target)
    wanted = _rungs(to, rungs)
    stand = Stand(
        target, endpoint, prompts, samples=samples, soak=soak, reference=reference, tell=tell, known=known or {}
    )
    climb = _Climb(stand, wanted, budget_seconds, list(seen), on_observation, on_schedule)
    ended = climb.run()
    made_from = (target.deployment.reference,) if target.deployment else ()
    return Evidence(
        made_from=made_from,
        deployment=target.name,
        engine=target.engine,
        engine_version=target.engine_version,
        to_rung=to,
        observations=tuple(stand.observations),
        prompts=f"{prompts.name}:{prompts.digest}",
        budget_seconds=budget_seconds,
        ended=ended,
    )


def schedule(stand: Stand, rungs: Iterable[LadderRung], budget_seconds: float | None) -> list[ScheduledGroup]:
    """What a climb would do from here, by what is known now. Asks nothing."""
    groups = [group for rung in rungs for group, _ in _groups(rung, stand) if _can(rung, stand)]
    return choose(groups, stand.rates, budget_seconds, stand.known)


def planned(
    prompts: PromptSet,
    *,
    to: str,
    budget_seconds: float | None,
    context_tokens: int | None,
    rates: tuple[float, float] | None,
    samples: int = 1,
    rungs: Iterable[str] | None = None,
    soak: SoakWish = SoakWish(),  # noqa: B008 (frozen)
    target: ProofTarget | None = None,
) -> list[ScheduledGroup]:
    """What a climb would do on that deployment up to that context; without one on a server that is not there yet."""
    safe = target or ProofTarget("", "", _SAFE_CONTEXT)
    target = replace(safe, context_tokens=context_tokens or safe.context_tokens)
    stand = Stand(target, Endpoint("http://nobody", ""), prompts, samples=samples, soak=soak)
    if rates is not None:
        stand.rates.learn(prefill=rates[0], decode=rates[1])
    return schedule(stand, _rungs(to, rungs), budget_seconds)


@dataclass
class _Climb:
    stand: Stand
    rungs: list[LadderRung]
    budget_seconds: float | None
    seen: list[Observation]
    on_observation: OnObservation | None
    on_schedule: OnSchedule | None
    started: float = field(default_factory=time.monotonic)
    left_out: int = 0
    """Questions that did not fit the budget."""

    def run(self) -> str:
        """Returns why it ended."""
        told = False
        for position, rung in enumerate(self.rungs):
            if not told and self.stand.rates.prefill and self.on_schedule is not None:
                self.on_schedule(schedule(self.stand, self.rungs[position:], self._left()))
                told = True
            if rung.probes(self.stand):
                self.stand.tell(f"{rung.name}: {rung.about}")
            if not _can(rung, self.stand):
                self._take(
                    note(
                        self.stand,
                        Slot(rung.name, "recipe", "recipe"),
                        "skipped",
                        "it needs the recipe, and this server is not ours",
                    )
                )
                continue
            gone = self._climb(rung)
            if gone:
                return gone
            if any(observation.verdict == "failed" for observation in self.stand.observations):
                return f"{rung.name} failed"
        if self.left_out:
            return f"the budget left out {self.left_out} questions"
        return "every rung that was asked for was climbed"

    def _climb(self, rung: LadderRung) -> str | None:
        """Every group of the rung; returns why the whole climb must end, if it must."""
        cut = False
        for group, probes in _groups(rung, self.stand):
            failed = any(prior.verdict == "failed" for prior in self.stand.observations if prior.rung == rung.name)
            seconds, left, dear = self.stand.rates.seconds(group.cost), self._left(), False
            self._tell_of(group, [Slot(rung.name, probe.check, probe.name) for probe in probes])
            for probe in probes:
                slot = Slot(rung.name, probe.check, probe.name)
                if (before := self._before(slot)) is not None:
                    self._resume(before)
                elif rung.in_order and failed:
                    self._take(note(self.stand, slot, "skipped", "pointless after the failure before it"))
                elif cut and rung.in_order:
                    self.left_out += 1
                    self._take(note(self.stand, slot, "skipped", AFTER_LEFT_OUT))
                elif left is not None and seconds is not None and seconds > left and rung.name != MEASURES:
                    self._take(note(self.stand, slot, "skipped", unaffordable(seconds, left)))
                    self.left_out, dear = self.left_out + 1, True
                else:
                    observation = probe.ask(self.stand)
                    self._take(observation)
                    if observation.verdict == "failed" and observation.response is None and self._is_gone():
                        return f"the server is gone: {observation.reason}"
            cut = cut or dear
        return None

    def _tell_of(self, group: Group, slots: list[Slot]) -> None:
        """A long prompt is announced, once a shorter one was measured."""
        told = self.stand.rates.witnessed(group.cost)
        if told is not None and told >= _LONG_SECONDS and all(self._before(slot) is None for slot in slots):
            self.stand.tell(f"  {group.name}: about {units.duration(told)}")

    def _before(self, slot: Slot) -> Observation | None:
        """What the interrupted climb saw there; what it left out or got no answer to is looked at anew."""
        for observation in self.seen:
            if (observation.rung, observation.probe) != (slot.rung, slot.probe) or observation.verdict == "skipped":
                continue
            unanswered = observation.verdict == "failed" and observation.response is None
            return None if unanswered else observation
        return None

    def _resume(self, before: Observation) -> None:
        stand, measured = self.stand, before.measured
        stand.observations.append(before)
        stand.rates.learn(
            prefill=measured.get("prefill_tokens_per_second"),
            decode=measured.get("decode_tokens_per_second"),
            prompt_tokens=measured.get("prompt_tokens", 0),
        )
        stand.tokens_per_sentence = measured.get("tokens_per_sentence", stand.tokens_per_sentence)
        if isinstance(made := before.request.get("long_text"), dict) and "hidden" in made:
            stand.seed, stand.notes["sentences"] = int(made["seed"]), int(made["sentences"])
            stand.notes["hidden"] = made["hidden"]

    def _take(self, observation: Observation) -> None:
        self.stand.observations.append(observation)
        if self.on_observation is not None:
            self.on_observation(observation)

    def _left(self) -> float | None:
        return None if self.budget_seconds is None else self.budget_seconds - (time.monotonic() - self.started)

    def _is_gone(self) -> bool:
        try:
            self.stand.endpoint.models()
        except EndpointError as error:
            return error.status is None
        return False


def _rungs(to: str, only: Iterable[str] | None) -> list[LadderRung]:
    names = rung_names()
    for name in (to, *(only or ())):
        if name not in names:
            raise UsageError(f"no rung named {name}", hint=f"rungs: {', '.join(names)}")
    if only is not None:
        return [rung for rung in RUNGS if rung.name in set(only)]
    return list(RUNGS[: names.index(to) + 1])


def _can(rung: LadderRung, stand: Stand) -> bool:
    return stand.target.recipe is not None or not rung.needs_recipe


def _groups(rung: LadderRung, stand: Stand) -> Iterator[tuple[Group, list[Probe]]]:
    """Probes in order, those of one group together; one without a group stands alone."""
    for name, members in groupby(rung.probes(stand), key=lambda probe: probe.group or probe.name):
        probes = list(members)
        cost = sum((probe.cost for probe in probes), ProbeCost())
        yield Group(rung.name, name, cost, len(probes), rung.in_order), probes

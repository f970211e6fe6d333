"""Climbs the ladder rung by rung; the climb ends at the first rung that fails.

What was seen before an interruption is handed in again and is not asked twice. A budget leaves out what does not fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from upright.base import units
from upright.base.errors import EndpointError, UsageError
from upright.base.progress import pace, pulsing
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import AFTER_LEFT_OUT, CUT_OFF, Evidence, Observation
from upright.facts.records.recipe import Recipe
from upright.facts.records.reference import Reference
from upright.proof.ladder.estimating import (
    EarlierTiming,
    Group,
    ProbeCost,
    ScheduledGroup,
    choose,
    unaffordable,
)
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.prompts import PromptSet
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext, ProofOptions, ProofTarget, SoakOptions
from upright.proof.ladder.rungs import RUNGS
from upright.serving.endpoint.client import Endpoint

OnObservation = Callable[[Observation], None]
OnSchedule = Callable[[list[ScheduledGroup]], None]
_SAFE_CONTEXT = 65_536
"""The context of the safe start, if none is named."""
_LONG_SECONDS = 60.0
"""A group of questions that takes longer is announced with its time."""
_LATE, _LATE_SECONDS = 0.05, 1.0
"""Half of the tenth within which a budget is kept, or so long on a busy machine: how late the rungs before a soak may
end without costing it questions."""
SOAK = "soak"
MEASURING_RUNG = "boot"
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


@dataclass(frozen=True)
class Listener:
    """Who is told on the way."""

    observation: OnObservation | None = None
    schedule: OnSchedule | None = None
    tell: Callable[[str], None] = lambda words: None


def prove(
    target: ProofTarget | Deployment,
    endpoint: Endpoint,
    prompts: PromptSet,
    *,
    to: str = "smoke",
    rungs: Iterable[str] | None = None,
    budget_seconds: float | None = None,
    samples: int = 1,
    soak: SoakOptions = SoakOptions(),  # noqa: B008 (frozen)
    reference: Reference | None = None,
    seen: Iterable[Observation] = (),
    on_observation: OnObservation | None = None,
    on_schedule: OnSchedule | None = None,
    tell: Callable[[str], None] = lambda words: None,
    known: Mapping[str, EarlierTiming] | None = None,
) -> Evidence:
    """Climb up to and including `to`, or only `rungs`. Each observation is handed on as it is made, so none is lost."""
    if isinstance(target, Deployment):
        target = target_of(target)
    only = None if rungs is None else tuple(rungs)
    options = ProofOptions(to, only, prompts, budget_seconds, samples, soak, reference)
    return climb(target, endpoint, options, Listener(on_observation, on_schedule, tell), seen=seen, known=known)


def climb(
    target: ProofTarget,
    endpoint: Endpoint,
    options: ProofOptions,
    listener: Listener,
    *,
    seen: Iterable[Observation] = (),
    known: Mapping[str, EarlierTiming] | None = None,
) -> Evidence:
    """`seen` is what an interrupted climb saw, `known` what each rung took before."""
    wanted = _rungs(options)
    options = _divided(options, wanted, listener.tell)
    stand = ProofContext(target, endpoint, options, tell=listener.tell, known=known or {})
    ended = _Climb(stand, wanted, listener, list(seen)).run()
    made_from = (target.deployment.reference,) if target.deployment else ()
    return Evidence(
        made_from=made_from,
        deployment=target.name,
        engine=target.engine,
        engine_version=target.engine_version,
        to_rung=options.to,
        observations=tuple(stand.observations),
        prompts=f"{stand.prompts.name}:{stand.prompts.digest}",
        budget_seconds=options.budget_seconds,
        ended=ended,
    )


def schedule(stand: ProofContext, rungs: Iterable[LadderRung], budget_seconds: float | None) -> list[ScheduledGroup]:
    """What a climb would do from here, by what is known now. Asks nothing."""
    groups = [group for rung in rungs for group, _ in _groups(rung, stand) if _can(rung, stand)]
    return choose(groups, stand.rates, budget_seconds, stand.known)


def planned_schedule(
    options: ProofOptions, rates: tuple[float, float] | None, target: ProofTarget | None = None
) -> list[ScheduledGroup]:
    """What a climb would do on that deployment; without one on a server that is not there yet."""
    if target is None:
        target = ProofTarget("", "", options.context_tokens or _SAFE_CONTEXT)
    elif (options.context_tokens or 0) > (target.context_tokens or 0):
        target = replace(target, context_tokens=options.context_tokens)
    options = _divided(options, _rungs(options))
    stand = ProofContext(target, Endpoint("http://nobody", ""), options)
    if rates is not None:
        stand.rates.learn(prefill=rates[0], decode=rates[1])
    return schedule(stand, _rungs(options), options.budget_seconds)


@dataclass
class _Climb:
    stand: ProofContext
    rungs: list[LadderRung]
    listener: Listener
    seen: list[Observation]
    started: float = field(default_factory=time.monotonic)
    left_out: int = 0
    """Questions that did not fit the budget."""
    kept_seconds: float = 0.0
    """Of the budget, for a load of that length that comes later."""

    def run(self) -> str:
        """Returns why it ended."""
        told = False
        for position, rung in enumerate(self.rungs):
            self.kept_seconds = _asked_seconds(self.rungs[position + 1 :], self.stand)
            if not told and self.stand.rates.prefill and self.listener.schedule is not None:
                self.listener.schedule(schedule(self.stand, self.rungs[position:], self._whole_left()))
                told = True
            if rung.probes(self.stand):
                self.stand.tell(f"{rung.name}: {rung.about}")
            if not _can(rung, self.stand):
                self._take(
                    observation_of(
                        self.stand,
                        Slot(rung.name, "recipe", "recipe"),
                        "skipped",
                        "it needs the recipe, and this server is not ours",
                    )
                )
                continue
            gone = self._climb_rung(rung)
            if gone:
                return gone
            if any(observation.verdict == "failed" for observation in self.stand.observations):
                return f"{rung.name} failed"
        if self.left_out:
            return f"the budget left out {self.left_out} questions"
        return "every rung that was asked for was climbed"

    def _climb_rung(self, rung: LadderRung) -> str | None:
        """Every group of the rung; returns why the whole climb must end, if it must."""
        with pulsing(self.stand.tell).watching(self._progress_of(rung)):
            return self._climb_groups(rung)

    def _progress_of(self, rung: LadderRung) -> Callable[[], str]:
        began, before = time.monotonic(), len(self.stand.observations)

        def words() -> str:
            asked, of = len(self.stand.observations) - before, len(rung.probes(self.stand))
            return f"  {rung.name}: {pace(asked, max(asked, of), time.monotonic() - began, 'questions')}"

        return words

    def _climb_groups(self, rung: LadderRung) -> str | None:
        cut = False
        for group, probes in _groups(rung, self.stand):
            prior = (seen.verdict for seen in self.stand.observations if seen.rung == rung.name)
            failed = any(verdict in ("failed", "wrong") for verdict in prior)
            seconds, left, dear = self.stand.rates.seconds(group.cost), self._left(), False
            if left is not None and group.cost.seconds:  # its time was kept: what ended a little late does not undo it
                left += max(_LATE * (self.stand.options.budget_seconds or 0.0), _LATE_SECONDS)
            self._tell_of(group, [Slot(rung.name, probe.check, probe.name) for probe in probes])
            for probe in probes:
                slot = Slot(rung.name, probe.check, probe.name)
                if (before := self._before(slot)) is not None:
                    self._resume(before)
                elif rung.in_order and failed:
                    self._take(observation_of(self.stand, slot, "skipped", "pointless after the failure before it"))
                elif cut and rung.in_order:
                    self.left_out += 1
                    self._take(observation_of(self.stand, slot, "skipped", AFTER_LEFT_OUT))
                elif left is not None and _exceeds(seconds, left, measures=rung.name == MEASURING_RUNG):
                    self._take(observation_of(self.stand, slot, "skipped", unaffordable(seconds or 0.0, left)))
                    self.left_out, dear = self.left_out + 1, True
                else:
                    observation = self._asked(probe)
                    self._take(observation)
                    if observation.verdict == "failed" and observation.response is None and self._is_gone():
                        return f"the server is gone: {observation.reason}"
            cut = cut or dear
        return None

    def _asked(self, probe: Probe) -> Observation:
        """Whatever the peer does, until the budget is used up: an answer that was cut off then says nothing."""
        left = self._left()
        if left is None:
            return probe.ask(self.stand)
        endpoint, until, whole = self.stand.endpoint, time.monotonic() + left, self.stand.endpoint.ends
        endpoint.ends = until
        try:
            observation = probe.ask(self.stand)
        finally:
            endpoint.ends = whole
        over = time.monotonic() >= until
        if over and observation.verdict == "failed" and observation.guard is None:
            self.left_out += 1
            reason = f"{observation.reason}: {CUT_OFF}"
            return observation.model_copy(update={"verdict": "skipped", "reason": reason})
        return observation

    def _tell_of(self, group: Group, slots: list[Slot]) -> None:
        """A long prompt is announced, once a shorter one was measured."""
        told = self.stand.rates.witnessed(group.cost)
        if told is not None and told >= _LONG_SECONDS and all(self._before(slot) is None for slot in slots):
            self.stand.tell(f"  {group.name}: about {units.format_duration(told)}")

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
        if self.listener.observation is not None:
            self.listener.observation(observation)

    def _left(self) -> float | None:
        """For this rung and those after it whose length nobody asked for."""
        left = self._whole_left()
        return None if left is None else left - self.kept_seconds

    def _whole_left(self) -> float | None:
        budget = self.stand.options.budget_seconds
        return None if budget is None else budget - (time.monotonic() - self.started)

    def _is_gone(self) -> bool:
        try:
            self.stand.endpoint.models()
        except EndpointError as error:
            return error.status is None
        return False


def _divided(
    options: ProofOptions, rungs: Iterable[LadderRung], tell: Callable[[str], None] = lambda words: None
) -> ProofOptions:
    """A soak that was asked for has its time before the climb begins: no more than half of the budget."""
    budget, soak = options.budget_seconds, options.soak
    if budget is None or soak.seconds <= budget / 2 or all(rung.name != SOAK for rung in rungs):
        return options
    tell(
        f"the budget leaves {units.format_duration(budget / 2)} for the soak, not {units.format_duration(soak.seconds)}"
    )
    return replace(options, soak=replace(soak, seconds=budget / 2))


def _asked_seconds(rungs: Iterable[LadderRung], stand: ProofContext) -> float:
    return sum(group.cost.seconds for rung in rungs if _can(rung, stand) for group, _ in _groups(rung, stand))


def _exceeds(seconds: float | None, left: float, *, measures: bool) -> bool:
    """What is not known is begun, and what measures it too, while anything is left."""
    return left <= 0 or (seconds is not None and seconds > left and not measures)


def _rungs(options: ProofOptions) -> list[LadderRung]:
    names = rung_names()
    for name in (options.to, *(options.rungs or ())):
        if name not in names:
            raise UsageError(f"no rung named {name}", hint=f"rungs: {', '.join(names)}")
    if options.rungs is not None:
        return [rung for rung in RUNGS if rung.name in options.rungs]
    return list(RUNGS[: names.index(options.to) + 1])


def _can(rung: LadderRung, stand: ProofContext) -> bool:
    return stand.target.recipe is not None or not rung.needs_recipe


def _groups(rung: LadderRung, stand: ProofContext) -> Iterator[tuple[Group, list[Probe]]]:
    """Probes in order, those of one group together; one without a group stands alone."""
    for name, members in groupby(rung.probes(stand), key=lambda probe: probe.group or probe.name):
        probes = list(members)
        cost = sum((probe.cost for probe in probes), ProbeCost())
        yield Group(rung.name, name, cost, len(probes), rung.in_order), probes

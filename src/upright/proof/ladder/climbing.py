"""A deployment, or anybody's server + ProofOptions -> Evidence: climbs with their changes, budget and words."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext, suppress
from dataclasses import replace

from upright.base import bounds, units
from upright.base.errors import LaunchError, UprightError
from upright.base.progress import Tell, pulsing
from upright.facts import store
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.planning.memory.kvcache import VALUE_BYTES
from upright.proof.ladder.estimating import ScheduledGroup, witnessed_total
from upright.proof.ladder.journaled import journaled_climb
from upright.proof.ladder.ladder import Listener, planned_schedule, target_of
from upright.proof.ladder.prompts import prompt_set_for
from upright.proof.ladder.recipe_changes import TrialChange, change_of, longer_contexts, step, undo_interrupted
from upright.proof.ladder.rung import DeploymentControl, ProofOptions
from upright.proof.ladder.rungs.speculation import trial_observations
from upright.proof.ladder.servers import server_target
from upright.proof.ladder.speculation_trial import Trial, speculate
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch import restart, status
from upright.serving.launch.footprint import FootprintMeter
from upright.serving.launch.readback import residuals_of

_NAMED = 4
"""Groups that are named one by one; more are counted."""
_LONG_SECONDS = 5
"""An answer that took longer is told of, so that a walk of minutes is seen to move."""


def prove_deployment(
    directory: DeploymentDir, options: ProofOptions, tell: Tell, trial: Trial | None = None
) -> Evidence:
    """Prove it as it stands, then with each change in turn, then with each way to guess ahead; what does not hold, or
    does not pay, is taken back."""
    tell, options = pulsing(tell), _fitted(options, directory)
    changes = _changes(directory, options)
    undo_interrupted(directory, tell)
    ends = _end_of(options)

    def proved() -> Evidence:
        return _prove_once(directory, _until(ends, options), tell)

    def proved_anew() -> Evidence:
        """With the whole budget: a trial has one of its own for its measuring."""
        return _prove_once(directory, options, tell)

    evidence, steps = proved(), []
    for change in changes if evidence.passed else ():
        if ends is not None and time.monotonic() >= ends:
            tell(f"not tried, the budget is used up: {change.setting} {change.value or ''}".rstrip())
            continue
        taken, seen = step(directory, change, evidence, proved, tell)
        steps.append(taken)
        if taken.outcome == "kept" and seen is not None:
            evidence = seen
    tried: tuple[Observation, ...] = ()
    if trial is not None and evidence.passed:
        record, taken_steps, seen = speculate(directory, trial, options.questions, evidence, proved_anew, tell)
        evidence, steps = seen or evidence, [*steps, *taken_steps]
        tried = trial_observations(record, options.questions)
        for made in tried:
            directory.append(made)
    if steps:
        every = (*evidence.observations, *tried)
        evidence = evidence.model_copy(update={"steps": tuple(steps), "observations": every})
        directory.write(evidence)
    return evidence


def prove_server(endpoint: Endpoint, options: ProofOptions, tell: Tell) -> Evidence:
    """Prove a server that somebody else started; what needs a recipe is skipped."""
    target = server_target(endpoint, options.context_tokens)
    if endpoint.ends is not None:
        options = replace(options, budget_seconds=max(endpoint.ends - time.monotonic(), 0.0))
    name = re.sub(r"[^a-z0-9.]+", "-", f"{endpoint.base_url.partition('://')[2]}-{endpoint.model}".lower())
    return journaled_climb(store.server_directory(name), target, endpoint, options, sentence_listener(pulsing(tell)))


def proof_schedule(
    directory: DeploymentDir | None, options: ProofOptions, rates: tuple[float, float] | None
) -> tuple[list[ScheduledGroup], list[TrialChange]]:
    """What a climb would do, and the changes that each take a restart and a climb after it. Of that deployment; without
    one of a server that is not there yet."""
    if directory is None:
        return planned_schedule(options, rates), []
    options = _fitted(options, directory)
    changes = _changes(directory, options)
    return planned_schedule(options, rates, target_of(directory.read(Deployment), directory.read(Recipe))), changes


def sentence_listener(tell: Tell) -> Listener:
    """Observations and schedules as sentences."""

    def on_observation(seen: Observation) -> None:
        if seen.verdict in ("failed", "wrong") or seen.seconds >= _LONG_SECONDS:
            tell(f"  {seen.probe or seen.check}: {seen.verdict}, {seen.reason}")

    def on_schedule(schedule: list[ScheduledGroup]) -> None:
        seconds, out = witnessed_total(schedule), [choice for choice in schedule if not choice.runs]
        if seconds is not None:
            tell(f"about {units.format_duration(seconds)} to go" + (", and not all of it fits" if out else ""))
        elif out:
            tell("not all of it fits the budget")
        for rung in dict.fromkeys(choice.group.rung for choice in out):
            names = [choice.group.name for choice in out if choice.group.rung == rung]
            tell(f"  left out of {rung}: " + (", ".join(names) if len(names) <= _NAMED else f"{len(names)} questions"))

    return Listener(on_observation, on_schedule, tell)


def _fitted(options: ProofOptions, directory: DeploymentDir) -> ProofOptions:
    return options if options.prompts else replace(options, prompts=prompt_set_for(directory.read(Model)))


def _changes(directory: DeploymentDir, options: ProofOptions) -> list[TrialChange]:
    longer = longer_contexts(directory, options.questions, options.context_tokens)
    return [*longer, *(change_of(text) for text in options.tries)]


def _prove_once(directory: DeploymentDir, options: ProofOptions, tell: Tell) -> Evidence:
    ends = _end_of(options)
    deployment = status(directory)
    if deployment.state not in RUNNING:
        raise LaunchError(
            f"{deployment.name} is {deployment.state}: {deployment.reason or 'it was never started'}",
            hint=f"upright diagnose {deployment.name}"
            if deployment.state == "failed"
            else "start one: upright up MODEL",
        )
    with Endpoint(deployment.base_url, deployment.served_name, key=directory.key(), watched=True) as endpoint:
        target = target_of(deployment, directory.read(Recipe))
        model = directory.read(Model)
        residuals, bits = _residuals(directory, options.budget_seconds), bits_of(model, directory.read(Plan))
        parameters = model.parameters or None
        target = replace(target, residuals=residuals, keeper=_keeper(directory), bits=bits, parameters=parameters)
        return journaled_climb(directory, target, endpoint, _until(ends, options), sentence_listener(tell))


def _end_of(options: ProofOptions) -> float | None:
    return None if options.budget_seconds is None else time.monotonic() + options.budget_seconds


def _until(ends: float | None, options: ProofOptions) -> ProofOptions:
    """With what is left of the budget."""
    return options if ends is None else replace(options, budget_seconds=max(ends - time.monotonic(), 0.0))


def bits_of(model: Model, plan: Plan) -> tuple[float, ...]:
    """Of a weight by the model's files, of a cached value by the plan; what is not known is left out."""
    weights = 8 * sum(line.bytes for line in model.weights) / model.parameters if model.parameters else None
    cached = VALUE_BYTES.get(plan.kv.dtype)
    return tuple(filter(None, (weights, None if cached is None else float(8 * cached))))


def _keeper(directory: DeploymentDir) -> DeploymentControl:
    def again() -> None:
        restart(directory, in_trial=True)

    return DeploymentControl(lambda: FootprintMeter(directory.read(Deployment)), again)


def _residuals(directory: DeploymentDir, budget_seconds: float | None) -> Residuals | None:
    """What the engine tells of its memory, if it does before the budget is used up."""
    with suppress(UprightError), nullcontext() if budget_seconds is None else bounds.time_limit(budget_seconds):
        return residuals_of(directory)
    return None

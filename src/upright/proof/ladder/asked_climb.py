"""A wish, and a deployment or a server as a person names them -> the climb, or what it would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from upright.base.progress import Tell
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence
from upright.facts.records.model import Model
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.proof.ladder.climbing import climb_deployment, climb_server
from upright.proof.ladder.estimating import ScheduledGroup
from upright.proof.ladder.journaled import Wish
from upright.proof.ladder.ladder import planned, target_of
from upright.proof.ladder.prompts import PromptSet, prompt_set, prompt_set_for
from upright.proof.ladder.servers import key_in, name_its_model
from upright.proof.ladder.speculating import Trial
from upright.proof.ladder.stepping import TrialChange, change_of, longer_contexts
from upright.serving.endpoint.client import Endpoint


@dataclass(frozen=True)
class AskedClimb:
    """What is to be climbed with the prompts that fit a model, and how far, and with which changes after it."""

    wish: Callable[[PromptSet], Wish]
    context_tokens: int | None = None
    tries: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClimbSchedule:
    """What a climb would do, and the changes that each take a restart and a climb after it."""

    groups: list[ScheduledGroup]
    budget_seconds: float | None
    changes: list[TrialChange] = field(default_factory=list)


def prove_deployment(directory: DeploymentDir, asked: AskedClimb, tell: Tell, trial: Trial | None) -> Evidence:
    wish, changes = _of_deployment(directory, asked)
    return climb_deployment(directory, wish, tell, changes, trial)


def prove_server(base_url: str, model: str | None, key_env: str | None, asked: AskedClimb, tell: Tell) -> Evidence:
    with Endpoint(base_url, model or "", key=key_in(key_env)) as endpoint:
        name_its_model(endpoint)
        return climb_server(endpoint, asked.wish(prompt_set("real")), tell, asked.context_tokens)


def climb_schedule(
    directory: DeploymentDir | None, asked: AskedClimb, rates: tuple[float, float] | None
) -> ClimbSchedule:
    """Of that deployment; without one of a server that is not there yet."""
    target, context, changes = None, asked.context_tokens, list[TrialChange]()
    if directory is None:
        wish = asked.wish(prompt_set("real"))
    else:
        wish, changes = _of_deployment(directory, asked)
        target = target_of(directory.read(Deployment), directory.read(Recipe))
        context = max(context or 0, target.context_tokens or 0)
    groups = planned(
        wish.prompts,
        to=wish.to,
        rungs=wish.only or None,
        budget_seconds=wish.budget_seconds,
        samples=wish.samples,
        soak=wish.soak,
        context_tokens=context,
        rates=rates,
        target=target,
    )
    return ClimbSchedule(groups, wish.budget_seconds, changes)


def _of_deployment(directory: DeploymentDir, asked: AskedClimb) -> tuple[Wish, list[TrialChange]]:
    wish = asked.wish(prompt_set_for(directory.read(Model)))
    longer = longer_contexts(directory, wish.prompts, asked.context_tokens)
    return wish, [*longer, *(change_of(text) for text in asked.tries)]

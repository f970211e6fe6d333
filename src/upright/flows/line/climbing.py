"""A deployment + a wish -> Evidence."""

from __future__ import annotations

from upright.base.progress import Tell
from upright.facts.records.evidence import Evidence
from upright.facts.records.model import Model
from upright.facts.store import DeploymentDir
from upright.proof.ladder.climbing import climb_deployment
from upright.proof.ladder.journaled import Wish
from upright.proof.ladder.prompts import PromptSet, prompt_set_for
from upright.proof.ladder.stepping import TrialChange


def climb(
    directory: DeploymentDir,
    *,
    to: str,
    tell: Tell,
    prompts: PromptSet | None = None,
    budget_seconds: float | None = None,
    samples: int = 1,
    changes: tuple[TrialChange, ...] = (),
) -> Evidence:
    """Prove a running deployment; every observation is on disk before the next question."""
    chosen = prompts or prompt_set_for(directory.read(Model))
    return climb_deployment(directory, Wish(to, chosen, budget_seconds, samples), tell, changes)

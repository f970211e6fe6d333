"""A deployment + a wish -> Evidence."""

from __future__ import annotations

from upright.progress import Tell
from upright.proving.climbing import climb_deployment
from upright.proving.journaled import Wish
from upright.proving.prompts import PromptSet, prompt_set_for
from upright.proving.stepping import TrialChange
from upright.records.evidence import Evidence
from upright.records.model import Model
from upright.store import DeploymentDir


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

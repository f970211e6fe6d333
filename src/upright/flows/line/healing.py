"""Starts a deployment, and mends it where the catalogue knows how."""

from __future__ import annotations

from upright.base.errors import EngineError, LaunchError
from upright.base.progress import Tell
from upright.facts.records.deployment import Deployment
from upright.facts.records.diagnosis import Attempt, Remedy, Sighting
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.flows.line.preparing import LaunchTarget, Prepared
from upright.planning.rendering import render
from upright.planning.requests.plan_request import ArtifactChoice, PlanRequest, plan_request
from upright.proof.ladder import prove
from upright.proof.ladder.prompts import prompt_set_for
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch import launch, restart
from upright.serving.launch.healing import HealingResult, RecipeChanger, heal
from upright.serving.launch.locks import without_restarts


def heal_up(
    prepared: Prepared, directory: DeploymentDir, *, tell: Tell, on: LaunchTarget | None = None
) -> HealingResult:
    """Start it, and mend what the catalogue can, one change at a time; sane first answers are part of standing."""
    if prepared.recipe is None:
        raise LaunchError("a plan with objections cannot be started")
    on = on or LaunchTarget()

    def again(recipe: Recipe) -> Deployment:
        begun = directory.has(Deployment)
        return restart(directory, recipe) if begun else launch(recipe, directory, keeping=on.keeping)

    def sane(deployment: Deployment) -> Sighting | None:
        """The smoke rung alone, as a look and not as evidence."""
        tell(f"smoke: {deployment.engine} answers, and is it sane?")
        with Endpoint(deployment.base_url, deployment.served_name, key=directory.key()) as endpoint:
            seen = prove(deployment, endpoint, prompt_set_for(prepared.model), rungs=("smoke",)).observations
        failed = [observation for observation in seen if observation.verdict == "failed"]
        return Sighting(where="answer", text=f"smoke {failed[0].check}: failed, {failed[0].reason}") if failed else None

    def other_engine(recipe: Recipe, remedy: Remedy) -> Recipe | None:
        goal = prepared.plan.goal.model_copy(update={"engine": remedy.value, "context_tokens": recipe.context_tokens})
        try:
            best = plan_request(PlanRequest(ArtifactChoice(prepared.model), prepared.box, goal)).best
            return render(best, prepared.model, prepared.box, model_path=recipe.model_path, port=recipe.port)
        except EngineError:  # not on this box, or not for this model
            return None

    def on_attempt(attempt: Attempt) -> None:
        outcome = "stands" if attempt.result == "ready" else attempt.code or attempt.said or attempt.result
        tell(f"attempt {attempt.number}: {outcome}")

    movers: dict[str, RecipeChanger] = {"use_engine": other_engine}
    with without_restarts(directory):
        return heal(
            prepared.recipe, directory, on.host(), start=again, check=sane, movers=movers, on_attempt=on_attempt
        )

"""What can be known without the weights: the engine takes the command, and starts on a model of the same shapes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import LaunchError
from upright.base.host import Host
from upright.base.progress import Tell
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.rehearsal import Rehearsal
from upright.flows.line.preparing import Prepared, prepare_model
from upright.flows.line.weights import repository
from upright.serving.check import check
from upright.serving.rehearse import WeightlessModel, fetch_weightless, rehearse


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal showed; None where the plan already says no."""

    plan: Plan
    rehearsal: Rehearsal | None


def rehearse_model(source: str, goal: Goal, host: Host, *, port: int, tell: Tell, box: Box | None = None) -> Rehearsed:
    """Probe, read, plan and render as for a start, and then start it on a model without weights."""
    with tempfile.TemporaryDirectory(prefix="upright-rehearsal-") as made:
        folder = Path(made)
        hollow: list[WeightlessModel] = []

        def locate(model: Model) -> str:
            tell("fetching headers, configuration and tokenizer")
            (folder / "model").mkdir()
            hollow.append(fetch_weightless(repository(source, model), folder / "model"))
            return hollow[0].path

        prepared = prepare_model(source, goal, host, port=port, tell=tell, locate=locate, box=box)
        if prepared.recipe is None:
            return Rehearsed(prepared.plan, None)
        done = rehearse(prepared.recipe, prepared.plan, prepared.model, hollow[0], host, folder, tell=tell)
        return Rehearsed(prepared.plan, done)


def rehearse_without_weights(source: str, prepared: Prepared, host: Host, *, tell: Tell) -> Rehearsal:
    """The same while the weights arrive: a start that falls ends the download early."""
    assert prepared.recipe is not None
    with tempfile.TemporaryDirectory(prefix="upright-rehearsal-") as made:
        folder = Path(made)
        (folder / "model").mkdir()
        hollow = fetch_weightless(repository(source, prepared.model), folder / "model")
        done = rehearse(prepared.recipe, prepared.plan, prepared.model, hollow, host, folder, tell=tell)
    tell(f"rehearsal: {'passed' if done.passed else 'fell'} by {' and '.join(done.ways) or 'nothing'}")
    if not done.passed:
        raise LaunchError(
            f"{done.engine} falls on this model without its weights too: {done.code or done.said}",
            hint=f"upright tools rehearse {source}",
        )
    return done


def check_without_weights(recipe: Recipe, *, tell: Tell) -> None:
    """What can be known while the weights arrive: a command that the engine refuses ends the download early."""
    recipe_check = check(recipe)
    tell(f"check: {recipe_check.verdict} by {recipe_check.judged_by}")
    if recipe_check.refusals:
        refused = recipe_check.refusals[0]
        raise LaunchError(f"{recipe.engine} refuses {refused.setting or 'the command'}: {refused.message}")

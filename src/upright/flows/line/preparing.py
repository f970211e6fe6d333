"""Box, model, plan and recipe: everything that is known before an engine is started."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upright.base.errors import LaunchError, UprightError
from upright.base.host import Host, LocalHost, SshHost
from upright.base.progress import Tell
from upright.facts.records.box import Box
from upright.facts.records.deployment import Keeping
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe, Runtime
from upright.facts.store import note_refusal
from upright.flows.line.weights import weights_on_disk
from upright.models.reading import read
from upright.planning.probing import probe
from upright.planning.rendering.recipe import RenderOptions, with_variables_passed
from upright.planning.requests.plan_arguments import artifacts_of, measurements, plan_of_file, recipe_of_file
from upright.planning.requests.plan_request import ArtifactChoice, PlanRequest, plan_request
from upright.planning.requests.preparation import Locate, prepare
from upright.planning.requests.preparation import Prepared as Prepared


@dataclass(frozen=True)
class LaunchTarget:
    """Where an engine is started, and how it is kept. Nothing said means here, as a process."""

    machine: str | None = None
    """As ssh calls it."""
    port: int | None = None
    """Where another machine's engine answers here; without one, the recipe's."""
    runtime: Runtime = "process"
    image: str | None = None
    model_path: str | None = None
    """Where the weights are on that machine, if not where they are here."""
    keeping: Keeping | None = None
    passed: tuple[str, ...] = ()
    """Variables of the environment there that the engine is given besides."""
    host_cache_bytes: int | None = None
    """System RAM behind its KV cache; None: the engine's own default."""

    def host(self) -> Host:
        return LocalHost() if self.machine is None else SshHost(self.machine)


def prepare_named(name: str, goal: Goal, on: LaunchTarget, *, port: int, tell: Tell, noted: bool) -> Prepared:
    """Of a recipe's or a plan's file, else of a model. A refusal is noted: it is what a bare `diagnose` talks about."""
    try:
        prepared = _of_name(name, goal, on, port, tell)
    except UprightError as error:
        if noted:
            note_refusal(name, error.message, error.hint)
        raise
    if noted and prepared.recipe is None and prepared.plan.objections:
        first = prepared.plan.objections[0]
        note_refusal(name, f"{first.code}: {first.message}", first.remedy)
    return prepared


def _of_name(name: str, goal: Goal, on: LaunchTarget, port: int, tell: Tell) -> Prepared:
    host = on.host()
    if (recipe := recipe_of_file(name)) is not None:
        return prepare_recipe(recipe, host, tell=tell, on=on)
    if (of_plan := plan_of_file(name)) is not None:
        name, goal = of_plan.model, of_plan.goal_with(goal)
        on = replace(on, host_cache_bytes=on.host_cache_bytes or of_plan.host_cache_bytes)
    return prepare_model(name, goal, host, port=port, tell=tell, on=on)


def prepare_model(
    source: str,
    goal: Goal,
    host: Host,
    *,
    port: int,
    tell: Tell,
    on: LaunchTarget | None = None,
    locate: Locate | None = None,
    box: Box | None = None,
) -> Prepared:
    """Read, probe (unless the box is given), plan, render: no engine is started. `locate` is asked for the weights of a
    plan that fits."""
    on = on or LaunchTarget()
    tell(f"reading {source}")
    choice = artifacts_of(source, read)
    where = box or _probed(host, on, tell)
    request = PlanRequest(choice, where, goal, measured=measurements(), host_cache_bytes=on.host_cache_bytes)

    def located(model: Model) -> str:
        path = on.model_path or (locate(model) if locate else weights_on_disk(source, model))
        _refuse_missing(path, host, on)
        return path

    tell("planning")
    wishes = RenderOptions(image=on.image, runtime=on.runtime, must_be_installed=on.runtime == "process")
    prepared = prepare(request, located, port=port, wishes=wishes)
    return replace(prepared, recipe=with_variables_passed(prepared.recipe, on.passed)) if prepared.recipe else prepared


def prepare_recipe(recipe: Recipe, host: Host, *, tell: Tell, on: LaunchTarget | None = None) -> Prepared:
    """A recipe from a file, with the records that a deployment is told by; those it was not made from it forgets."""
    on = on or LaunchTarget()
    tell(f"reading {recipe.model_path}")
    model = read(recipe.model_path)
    box = _probed(host, on, tell)
    goal = Goal(context_tokens=recipe.context_tokens, users=recipe.users, engine=recipe.engine)
    best = plan_request(PlanRequest(ArtifactChoice(model), box, goal)).best
    path = on.model_path or recipe.model_path
    _refuse_missing(path, host, on)
    here = {record.reference for record in (box, model, best)}
    return Prepared(
        box,
        model,
        best,
        with_variables_passed(_loading(path, recipe), on.passed).model_copy(
            update={"made_from": tuple(reference for reference in recipe.made_from if reference in here)}
        ),
    )


def _loading(path: str, recipe: Recipe) -> Recipe:
    """The same recipe for weights that are elsewhere."""
    arguments = tuple(
        setting.model_copy(update={"value": path}) if setting.value == recipe.model_path else setting
        for setting in recipe.arguments
    )
    return recipe.model_copy(update={"model_path": path, "arguments": arguments})


def _probed(host: Host, on: LaunchTarget, tell: Tell) -> Box:
    tell(f"probing {on.machine or 'this machine'}")
    return probe(host)


def _refuse_missing(path: str, host: Host, on: LaunchTarget) -> None:
    if on.machine is not None and not host.run(["test", "-e", path]).ok:
        raise LaunchError(
            f"{on.machine} has no {path}", hint="copy the weights there, and say where they are: --model-path PATH"
        )

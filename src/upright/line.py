"""box + model -> plan -> recipe -> deployment -> evidence -> report: the whole flow on one screen.

`upright run` executes `run`; the other verbs stop along the way. Nothing here decides anything: each arrow is a verb of
its room, each record is on disk before the next one is made.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from upright import store, units
from upright.benchmarking.bench import kept
from upright.checking import check
from upright.connecting import ClientSettings, connect
from upright.endpoint.client import Endpoint
from upright.errors import EngineError, LaunchError, UprightError
from upright.fetching import Arriving, find_weights
from upright.host import Host, LocalHost, SshHost
from upright.launching import address, launch, refuse_missing_runtime, refuse_taken_port, restart, status, stop
from upright.launching.healing import Healed, Mover, heal
from upright.launching.readback import read_back
from upright.planning import plan
from upright.planning.artifacts import Choice, choice
from upright.probing import probe
from upright.proving import prove
from upright.proving.climbing import climb_deployment
from upright.proving.journaled import Wish
from upright.proving.prompts import PromptSet, prompt_set_for
from upright.proving.stepping import Change
from upright.reading import read
from upright.records.box import Box
from upright.records.deployment import Deployment, Keeping
from upright.records.diagnosis import Attempt, Attempts, Remedy, Sighting
from upright.records.evidence import Evidence
from upright.records.model import Model
from upright.records.plan import Goal, Plan
from upright.records.recipe import Recipe, Runtime
from upright.records.rehearsal import Rehearsal
from upright.records.residuals import Residuals
from upright.rehearsing import Husk, husk, rehearse
from upright.rendering import render
from upright.rendering.recipe import Wishes
from upright.reporting import Subject, report
from upright.store import DeploymentDir

Tell = Callable[[str], None]
OnChange = Callable[[Deployment], None]
Locate = Callable[[str, Model], str]
"""What was named, and what it is -> the path that an engine is told."""


@dataclass(frozen=True)
class On:
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

    def host(self) -> Host:
        return LocalHost() if self.machine is None else SshHost(self.machine)


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before an engine is started."""

    box: Box
    model: Model
    plan: Plan
    recipe: Recipe | None
    """None when the plan has objections."""


@dataclass(frozen=True)
class Run:
    """Everything that one run made. Without a recipe the answer was no, and nothing was started."""

    prepared: Prepared
    deployment: Deployment | None = None
    evidence: Evidence | None = None
    settings: ClientSettings | None = None
    page: Path | None = None

    @property
    def stands(self) -> bool:
        return self.evidence is not None and self.evidence.passed


def run(source: str, goal: Goal, host: Host, *, port: int, to: str, keep: bool, tell: Tell, weights: Arriving) -> Run:
    rehearsed: Rehearsal | None = None
    with weights:
        prepared = prepare(source, goal, host, port=port, tell=tell, locate=fetched(weights))
        if prepared.recipe is None:
            return Run(prepared)
        if weights.under_way:
            check_without_weights(prepared.recipe, tell=tell)
            rehearsed = rehearse_without_weights(source, prepared, host, tell=tell)
        weights.wait()
    directory = register(prepared)
    if rehearsed is not None:
        directory.write(rehearsed)
    try:
        start(prepared, directory, tell=tell, on=On(keeping=Keeping(restarts=0)))  # a crash is an answer
        evidence = climb(directory, to=to, tell=tell)
        settings = connect(directory.read(Deployment), directory.key_file)
    except BaseException:  # Ctrl-C too: what `run` started, `run` ends
        if directory.has(Deployment):
            stop(directory)
        raise
    if not keep:
        tell("stopping")
        stop(directory)
    page = write_report(directory)
    return Run(prepared, status(directory), evidence, settings, page)


def prepare(
    source: str,
    goal: Goal,
    host: Host,
    *,
    port: int,
    tell: Tell,
    on: On | None = None,
    locate: Locate | None = None,
    box: Box | None = None,
) -> Prepared:
    """Probe (unless the box is given), read, plan, render: no engine is started. `locate` is asked for the weights of a
    plan that fits."""
    on = on or On()
    if box is None:
        tell(f"probing {on.machine or 'this machine'}")
        box = probe(host)
    tell(f"reading {source}")
    found = Choice(read(source)) if Path(source).exists() else choice(source, read)
    tell("planning")
    known = store.measured()
    chosen = best(plan(box, found.model, goal, choose_from=found.choose_from, others=found.others, measured=known))
    model = next(each for each in (found.model, *found.choose_from) if each.name == chosen.model)
    if not chosen.fits:
        return Prepared(box, model, chosen, None)
    path = on.model_path or (locate or on_disk)(source, model)
    _refuse_missing(path, host, on)
    contained = on.runtime != "process"
    wishes = Wishes(image=on.image, runtime=on.runtime, must_be_installed=not contained)
    return Prepared(box, model, chosen, render(chosen, model, box, model_path=path, port=port, wishes=wishes))


def prepare_recipe(recipe: Recipe, host: Host, *, tell: Tell, on: On | None = None) -> Prepared:
    """A recipe from a file, with the records that a deployment is told by; those it was not made from it forgets."""
    on = on or On()
    tell(f"probing {on.machine or 'this machine'}")
    box = probe(host)
    tell(f"reading {recipe.model_path}")
    model = read(recipe.model_path)
    goal = Goal(context_tokens=recipe.context_tokens, users=recipe.users, engine=recipe.engine)
    chosen = best(plan(box, model, goal))
    _refuse_missing(recipe.model_path, host, on)
    here = {record.reference for record in (box, model, chosen)}
    return Prepared(
        box,
        model,
        chosen,
        recipe.model_copy(update={"made_from": tuple(each for each in recipe.made_from if each in here)}),
    )


def best(plans: list[Plan]) -> Plan:
    if not plans:
        raise EngineError("no engine can serve this model")
    return plans[0]


def register(prepared: Prepared, on: On | None = None, *, healing: bool = False) -> DeploymentDir:
    """A new deployment's directory, with the records it will be made from; none for what cannot be started."""
    on = on or On()
    if prepared.recipe is not None:
        if not healing:
            refuse_taken_port(address(prepared.recipe, on.machine, on.port))
        refuse_missing_runtime(prepared.recipe, on.host())
    directory = store.create(_slug(prepared.model.name))
    for record in (prepared.box, prepared.model, prepared.plan):
        directory.write(record)
    return directory


def start(
    prepared: Prepared, directory: DeploymentDir, *, tell: Tell, on: On | None = None, on_change: OnChange | None = None
) -> Deployment:
    """Start the engine; it has answered a real question when this returns."""
    if prepared.recipe is None:
        raise LaunchError("a plan with objections cannot be started")
    on = on or On()
    deployment = launch(
        prepared.recipe,
        directory,
        machine=on.machine,
        port=on.port,
        keeping=on.keeping,
        on_change=on_change or told(tell),
    )
    measure(directory, tell=tell)
    return deployment


def measure(directory: DeploymentDir, *, tell: Tell) -> Residuals | None:
    """The engine's own figures beside the plan's, kept for the next plan; no engine is held up by it."""
    try:
        return read_back(directory)
    except (UprightError, OSError) as error:
        tell(f"not measured: {error}")
        return None


def heal_up(prepared: Prepared, directory: DeploymentDir, *, tell: Tell, on: On | None = None) -> Healed:
    """Start it, and mend what the catalogue can, one change at a time; sane first answers are part of standing."""
    if prepared.recipe is None:
        raise LaunchError("a plan with objections cannot be started")
    keeping = (on.keeping if on and on.keeping else Keeping()).model_copy(
        update={"restarts": 0}
    )  # a crash is an answer

    def again(recipe: Recipe) -> Deployment:
        begun = directory.has(Deployment)
        return restart(directory, recipe) if begun else launch(recipe, directory, keeping=keeping)

    def sane(deployment: Deployment) -> Sighting | None:
        """The smoke rung alone, as a look and not as evidence."""
        tell(f"smoke: {deployment.engine} answers, and is it sane?")
        with Endpoint(deployment.base_url, deployment.served_name, key=directory.key()) as endpoint:
            seen = prove(deployment, endpoint, prompt_set_for(prepared.model), rungs=("smoke",)).observations
        failed = [each for each in seen if each.verdict == "failed"]
        return Sighting(where="answer", text=f"smoke {failed[0].check}: failed, {failed[0].reason}") if failed else None

    def other_engine(recipe: Recipe, remedy: Remedy) -> Recipe | None:
        goal = prepared.plan.goal.model_copy(update={"engine": remedy.value, "context_tokens": recipe.context_tokens})
        try:
            made = best(plan(prepared.box, prepared.model, goal))
            return render(made, prepared.model, prepared.box, model_path=recipe.model_path, port=recipe.port)
        except EngineError:  # not on this box, or not for this model
            return None

    def on_attempt(attempt: Attempt) -> None:
        outcome = "stands" if attempt.result == "ready" else attempt.code or attempt.said or attempt.result
        tell(f"attempt {attempt.number}: {outcome}")

    movers: dict[str, Mover] = {"use_engine": other_engine}
    host = on.host() if on else LocalHost()
    return heal(prepared.recipe, directory, host, start=again, check=sane, movers=movers, on_attempt=on_attempt)


def told(tell: Tell) -> OnChange:
    """A deployment's changes, in words, each once."""
    said: list[str] = []

    def on_change(now: Deployment) -> None:
        words = now.state + (f": {now.reason}" if now.reason else "")
        if said[-1:] != [words]:
            said.append(words)
            tell(words)

    return on_change


def climb(
    directory: DeploymentDir,
    *,
    to: str,
    tell: Tell,
    prompts: PromptSet | None = None,
    budget_seconds: float | None = None,
    samples: int = 1,
    changes: tuple[Change, ...] = (),
) -> Evidence:
    """Prove a running deployment; every observation is on disk before the next question."""
    chosen = prompts or prompt_set_for(directory.read(Model))
    return climb_deployment(directory, Wish(to, chosen, budget_seconds, samples), tell, changes)


def write_report(directory: DeploymentDir, path: Path | None = None) -> Path:
    """One self-contained page of what is on disk."""
    page = path or directory.path / "report.html"
    store.write_atomically(page, report(subject(directory)).encode())
    return page


def subject(directory: DeploymentDir) -> Subject:
    return Subject(
        box=directory.read(Box),
        model=directory.read(Model),
        plan=directory.read(Plan),
        recipe=directory.read(Recipe),
        deployment=status(directory),
        evidence=directory.read(Evidence) if directory.has(Evidence) else None,
        benchmarks=kept(directory),
        attempts=directory.read(Attempts) if directory.has(Attempts) else None,
        residuals=directory.read(Residuals) if directory.has(Residuals) else None,
    )


def _refuse_missing(path: str, host: Host, on: On) -> None:
    if on.machine is not None and not host.run(["test", "-e", path]).ok:
        raise LaunchError(
            f"{on.machine} has no {path}", hint="copy the weights there, and say where they are: --model-path PATH"
        )


def fetched(weights: Arriving) -> Locate:
    """Weights that are not on this disk are fetched from here on, if they may be."""

    def locate(source: str, model: Model) -> str:
        return _found(source, model) or weights.begin(_repository(source, model), model.revision)

    return locate


def on_disk(source: str, model: Model) -> str:
    """Where the engine finds the weights; an engine of ours downloads nothing by itself."""
    found = _found(source, model)
    if found is None:
        raise LaunchError(
            f"the weights of {model.name} are not on this disk ({units.size(model.tensor_bytes)})",
            hint=f"upright fetch {_repository(source, model)}",
        )
    return found


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal showed; None where the plan already says no."""

    plan: Plan
    rehearsal: Rehearsal | None


def rehearse_model(source: str, goal: Goal, host: Host, *, port: int, tell: Tell, box: Box | None = None) -> Rehearsed:
    """Probe, read, plan and render as for a start, and then start it on a model without weights."""
    with tempfile.TemporaryDirectory(prefix="upright-rehearsal-") as made:
        folder = Path(made)
        hollow: list[Husk] = []

        def locate(named: str, model: Model) -> str:
            tell("fetching headers, configuration and tokenizer")
            (folder / "model").mkdir()
            hollow.append(husk(_repository(named, model), folder / "model"))
            return hollow[0].path

        prepared = prepare(source, goal, host, port=port, tell=tell, locate=locate, box=box)
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
        hollow = husk(_repository(source, prepared.model), folder / "model")
        done = rehearse(prepared.recipe, prepared.plan, prepared.model, hollow, host, folder, tell=tell)
    tell(f"rehearsal: {'passed' if done.passed else 'fell'} by {' and '.join(done.ways) or 'nothing'}")
    if not done.passed:
        raise LaunchError(
            f"{done.engine} falls on this model without its weights too: {done.code or done.said}",
            hint=f"upright rehearse {source}",
        )
    return done


def check_without_weights(recipe: Recipe, *, tell: Tell) -> None:
    """What can be known while the weights arrive: a command that the engine refuses ends the download early."""
    found = check(recipe)
    tell(f"check: {found.verdict} by {found.judged_by}")
    if found.refusals:
        refused = found.refusals[0]
        raise LaunchError(f"{recipe.engine} refuses {refused.setting or 'the command'}: {refused.message}")


def _found(source: str, model: Model) -> str | None:
    """Names are kept as they are: a split GGUF finds its parts by its name, which a link's target need not have."""
    for path in (source, model.path, find_weights(_repository(source, model), model.revision)):
        if path and Path(path).exists():
            return str(Path(path).absolute())
    return None


def _repository(source: str, model: Model) -> str:
    """What a catalogue name stands for; otherwise what was named."""
    return model.source if model.basis == "catalog" else source


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"

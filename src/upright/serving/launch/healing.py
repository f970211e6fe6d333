"""Starts a recipe, and applies the catalogue's remedies until the deployment stands or none is left.

One change at a time, never the same recipe twice, and a bound on both; every attempt is on disk before the next begins.
What only a person may do (patch an installed engine, clear ACS, fetch another file) is said, and ends the healing.
"""

from __future__ import annotations

import io
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from upright.base.errors import LaunchError, UsageError
from upright.base.host import Host
from upright.base.progress import utc_now
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.diagnosis import Attempt, Attempts, Diagnosis, Remedy, Sighting
from upright.facts.records.evidence import Evidence
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir, RefusedStart
from upright.serving.diagnose import LogContext, apply_remedy, diagnose, diagnose_file, machine
from upright.serving.launch import logs
from upright.serving.launch.launch import launch, refuse_taken_port, restart, status, stop
from upright.serving.launch.stacks import process_states
from upright.serving.launch.workers import recorded_limits, recorded_workers

MOST_ATTEMPTS = 8
MOST_STEPS = 4
"""How often one flag is lowered or raised for the same failure before something else is tried."""
_MOST_FAULTS = 20
"""Failed checks that a diagnosis looks at."""
Start = Callable[[Recipe], Deployment]
"""Starts that recipe, the first time or again, and returns when it answered; LaunchError if it falls."""
Check = Callable[[Deployment], Sighting | None]
"""A deployment that answered -> what is wrong with its answers, or None."""
RecipeChanger = Callable[[Recipe, Remedy], Recipe | None]
"""A change that is more than an edit: another engine, another artifact."""


@dataclass(frozen=True)
class HealingResult:
    """What came of it. Without a deployment it does not stand."""

    deployment: Deployment | None
    way: Attempts
    diagnosis: Diagnosis | None
    """Of the last attempt, if it fell."""


def heal(
    recipe: Recipe,
    directory: DeploymentDir,
    host: Host,
    *,
    start: Start | None = None,
    check: Check | None = None,
    movers: Mapping[str, RecipeChanger] | None = None,
    most: int = MOST_ATTEMPTS,
    on_attempt: Callable[[Attempt], None] | None = None,
) -> HealingResult:
    """Start it; while it falls and the catalogue knows a change that was not tried, change that and start again."""
    way = directory.read(Attempts) if directory.has(Attempts) else Attempts(name=directory.name)
    tried = _Tried(movers or {})
    change: Remedy | None = None
    diagnosis: Diagnosis | None = None
    for _ in range(most):
        tried.note(recipe)
        deployment, diagnosis, seconds = _attempt(recipe, directory, host, check, start or partial(_start, directory))
        attempt = _told(len(way.attempts) + 1, recipe, change, deployment, diagnosis, seconds)
        way = way.model_copy(update={"attempts": (*way.attempts, attempt), "stands": diagnosis is None})
        directory.write(way)
        if on_attempt is not None:
            on_attempt(attempt)
        if diagnosis is None:
            return HealingResult(deployment, way, None)
        next_change = tried.next(recipe, diagnosis)
        if next_change is None:
            return _given_up(directory, way, diagnosis, _why_no_more(diagnosis))
        change, recipe = next_change
    return _given_up(directory, way, diagnosis, f"{most} attempts were made, and none stands")


def diagnose_refusal(refused: RefusedStart) -> Diagnosis:
    """Of an `up` that started nothing."""
    sighting = Sighting(where="host", text=f"up refused: {refused.message}")
    notes = (f"of `up {refused.model}` at {refused.at}, which started nothing",)
    around = LogContext(
        failed=True, stood=False, machine=(sighting,), notes=notes + ((refused.hint,) if refused.hint else ())
    )
    return diagnose(io.BytesIO(), subject=f"up {refused.model}", around=around)


def diagnose_previous_start(directory: DeploymentDir) -> Diagnosis:
    """Of the start before this one, by its log alone: the machine has moved on, and so may the recipe have."""
    older = logs.earlier_logs(directory)
    if not older:
        raise UsageError(
            f"{directory.name} was started only once: there is no start before this one",
            hint=f"upright diagnose {directory.name}",
        )
    around = LogContext(engine=status(directory).engine, notes=("of the start before this one, by its log alone",))
    return diagnose_file(older[-1], subject=directory.name, around=around)


def diagnose_deployment(directory: DeploymentDir, host: Host, *, said: tuple[Sighting, ...] = ()) -> Diagnosis:
    """Why it fell, or what it is doing: its log, what the machine says of it, and what is known beside."""
    deployment, recipe = status(directory), directory.read(Recipe)
    running = deployment.state in RUNNING
    said = (*said, *(_proved(directory, recipe) if running and not said else ()), *_stopped(deployment, recipe))
    failed = deployment.state in ("failed", "hung") or bool(said)
    question = machine.RunQuestion(
        since=deployment.created_at,
        pids=tuple(process.pid for process in (deployment.process, deployment.supervisor) if process is not None),
        workers=recorded_workers(directory),
        limits=recorded_limits(directory),
        port=recipe.port,
        paths=(str(directory.path),),
        died=not running,
    )
    around = LogContext(
        engine=deployment.engine,
        exit_code=None if running else deployment.exit_code,
        failed=failed,
        stood=any(change.state in ("ready", "degraded") for change in deployment.history),
        hung=deployment.state == "hung",
        reason=deployment.reason,
        silent_seconds=_silent_seconds(directory) if running else None,
        machine=(*said, *(machine.ask_machine(host, question) if failed or running else ())),
        recipe=recipe,
    )
    if not directory.log.exists():
        return diagnose(io.BytesIO(), subject=deployment.name, around=around)
    return diagnose_file(directory.log, subject=deployment.name, around=around)


def _proved(directory: DeploymentDir, recipe: Recipe) -> tuple[Sighting, ...]:
    """What `prove` found wrong with the answers of this very recipe: a silent failure leaves no line in a log."""
    if not directory.has(Evidence):
        return ()
    failed = [
        observation
        for observation in directory.read(Evidence).observations
        if observation.verdict == "failed" and observation.subject in (None, f"recipe:{recipe.digest}")
    ]
    return tuple(
        Sighting(where="evidence", text=f"prove {fault.guard or fault.check} in {fault.rung}: {fault.reason}")
        for fault in failed[:_MOST_FAULTS]
    )


def _stopped(deployment: Deployment, recipe: Recipe) -> tuple[Sighting, ...]:
    """Processes of a run on this machine that somebody holds."""
    process = deployment.process if deployment.state in RUNNING else None
    if process is None or recipe.runtime != "process" or deployment.machine is not None:
        return ()
    held = [state for state in process_states(process) if " is stopped " in state or " is held " in state]
    return tuple(Sighting(where="host", text=f"upright: {state}") for state in held[:1])


class _Tried:
    """What has been tried, and what is left."""

    def __init__(self, movers: Mapping[str, RecipeChanger]) -> None:
        self.movers = movers
        self.recipes: set[tuple[object, ...]] = set()
        self.steps: Counter[tuple[str, str, str | None]] = Counter()

    def note(self, recipe: Recipe) -> None:
        self.recipes.add(_words(recipe))

    def next(self, recipe: Recipe, diagnosis: Diagnosis) -> tuple[Remedy, Recipe] | None:
        cause = diagnosis.likeliest
        for remedy in cause.remedies if cause is not None else ():
            step = (cause.code if cause else "", remedy.do, remedy.name)
            mover = self.movers.get(remedy.do)
            changed = mover(recipe, remedy) if mover else apply_remedy(recipe, remedy, free_port=_free_port(remedy))
            if changed is None or _words(changed) in self.recipes or self.steps[step] >= MOST_STEPS:
                continue
            self.steps[step] += 1
            return _as_made(remedy, changed), changed
        return None


def _start(directory: DeploymentDir, recipe: Recipe) -> Deployment:
    return restart(directory, recipe) if directory.has(Deployment) else launch(recipe, directory)


def _attempt(
    recipe: Recipe, directory: DeploymentDir, host: Host, check: Check | None, start: Start
) -> tuple[Deployment | None, Diagnosis | None, float]:
    """It stands, it fell, or (both a deployment and a diagnosis) it answered and was found wanting."""
    started = time.monotonic()
    if directory.has(Deployment):
        stop(directory)  # its own port is not somebody else's
    try:
        refuse_taken_port(recipe.base_url)
    except LaunchError as error:
        return None, _port_held(recipe, directory, host, error), time.monotonic() - started
    try:
        deployment = start(recipe)
        sighting = check(deployment) if check is not None else None
    except LaunchError:
        return None, diagnose_deployment(directory, host), time.monotonic() - started
    seconds = time.monotonic() - started
    return (
        deployment,
        (diagnose_deployment(directory, host, said=(sighting,)) if sighting is not None else None),
        seconds,
    )


def _port_held(recipe: Recipe, directory: DeploymentDir, host: Host, error: LaunchError) -> Diagnosis:
    """The engine was not even started, so there is no log of this attempt."""
    asked = machine.ask_machine(host, machine.RunQuestion(since=utc_now(), port=recipe.port))
    held = [sighting for sighting in asked if sighting.text.startswith("ss: port")]
    sightings = held or [Sighting(where="host", text=f"ss: port {recipe.port} is held by another process")]
    around = LogContext(
        engine=recipe.engine, failed=True, reason=error.message, machine=tuple(sightings), recipe=recipe
    )
    return diagnose(io.BytesIO(), subject=directory.name, around=around)


def _told(
    number: int,
    recipe: Recipe,
    change: Remedy | None,
    deployment: Deployment | None,
    diagnosis: Diagnosis | None,
    seconds: float,
) -> Attempt:
    last_line = diagnosis.excerpt[-1].text if diagnosis is not None and diagnosis.excerpt else ""
    return Attempt(
        number=number,
        at=utc_now(),
        engine=recipe.engine,
        recipe=recipe.digest,
        change=change,
        result="ready" if diagnosis is None else "partial" if deployment is not None else "failed",
        code=diagnosis.code if diagnosis is not None else None,
        said=last_line,
        seconds=round(seconds, 2),
    )


def _given_up(directory: DeploymentDir, way: Attempts, diagnosis: Diagnosis | None, reason: str) -> HealingResult:
    if directory.has(Deployment):
        stop(directory)  # what stands and answers nonsense does not go on answering
    way = way.model_copy(update={"stopped": reason})
    directory.write(way)
    return HealingResult(None, way, diagnosis)


def _why_no_more(diagnosis: Diagnosis) -> str:
    cause = diagnosis.likeliest
    if cause is None:
        return "no row of the catalogue knows this failure"
    by_hand = [remedy for remedy in cause.remedies if remedy.do in _BY_HAND]
    return f"what is left for {cause.code} only you can do" if by_hand else f"nothing else is known for {cause.code}"


_BY_HAND = ("by_hand", "use_patch", "use_version", "use_image", "use_artifact", "use_engine")


def _as_made(remedy: Remedy, changed: Recipe) -> Remedy:
    """The remedy with the value that it came to, so that the timeline tells what was done."""
    if remedy.do == "other_port":
        return remedy.model_copy(update={"value": str(changed.port)})
    made = next((setting.value for setting in changed.arguments if setting.reason == remedy.why), None)
    return remedy.model_copy(update={"value": made}) if made and remedy.do.endswith("_flag") else remedy


def _words(recipe: Recipe) -> tuple[object, ...]:
    """What makes a start another start."""
    environment = tuple(sorted((variable.name, variable.value or "") for variable in recipe.environment))
    return recipe.argv, environment, recipe.image


def _free_port(remedy: Remedy) -> int | None:
    if remedy.do != "other_port":
        return None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _silent_seconds(directory: DeploymentDir) -> float | None:
    if not directory.log.exists():
        return None
    return max(0.0, time.time() - directory.log.stat().st_mtime)

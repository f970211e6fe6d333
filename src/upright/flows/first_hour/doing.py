"""A step -> what came of it, by the rooms that do such things for anybody."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from upright.base.errors import LaunchError
from upright.base.host import LocalHost
from upright.base.progress import Tell
from upright.facts.records.benchmark import Shape
from upright.facts.records.box import Box
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.first_hour import FieldFigure, FieldStep
from upright.facts.records.plan import Goal, Plan
from upright.facts.store import DeploymentDir
from upright.flows.first_hour.figures import SHORT_TOKENS, climbed_words, memory_figures, rung_answers, speed_figures
from upright.flows.line.preparing import On, prepare_model
from upright.flows.line.starting import measure, register, start, told
from upright.flows.line.weights import repository
from upright.planning.probing import probe
from upright.planning.requests.asking import artifacts_of
from upright.proof.benchmark.bench import bench
from upright.proof.benchmark.known import of_deployment
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch
from upright.proof.benchmark.workload import workloads
from upright.proof.ladder.climbing import prove_deployment
from upright.proof.ladder.rung import ProofOptions
from upright.serving.fetch import fetch
from upright.serving.launch import restart, status, stop
from upright.serving.launch.locks import trying

PROVED_TO = "clients"
_WORKLOAD = "short"
_ANSWER_TOKENS, _REQUESTS = 64, 4
_STARTING = ("planned", "pulling", "starting")


@dataclass(frozen=True)
class StepDone:
    """What a step showed."""

    why: str
    passed: bool = True
    figures: tuple[FieldFigure, ...] = ()
    answers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepCase:
    """All that a step is given."""

    step: FieldStep
    box: Box
    seconds: float
    """What it may take."""
    directory: DeploymentDir | None
    """The deployment of its configuration, once it was started."""
    keep_box: Callable[[Box], None]
    started: Callable[[DeploymentDir], None]
    """Told of a new deployment before its engine starts, so that a kill leaves nothing unknown."""
    tell: Tell


def do(case: StepCase) -> StepDone:
    """UprightError if it cannot be done."""
    return _ACTIONS[case.step.action](case)


def _probe(case: StepCase) -> StepDone:
    box = probe(LocalHost())
    case.keep_box(box)
    wanting = {setting.name: setting.verdict for setting in box.settings if setting.verdict == "attention"}
    found = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in _found(box).items())
    return StepDone(found, answers=dict(wanting))


def _found(box: Box) -> dict[str, int]:
    return {"GPU": len(box.gpus), "engine": len(box.engines)}


def _kernels(case: StepCase) -> StepDone:
    from upright.proof import kernels

    capability = next((gpu.compute_capability for gpu in case.box.gpus if gpu.compute_capability), None)
    assert capability is not None
    assert case.step.engine is not None
    python = kernels.interpreter(None, None)
    source = kernels.find_source(case.step.engine, environment=python)
    attention = artifacts_of(case.step.model or "").model.architecture.attention
    compiler = kernels.Compiler(python, max(10.0, case.seconds / 2))
    check = kernels.check(
        attention, source, kernels.of_capability(capability), compiler, devices=len(case.box.gpus), box=case.box.name
    )
    answers = {f"{verdict.path} {verdict.kernel}": verdict.verdict for verdict in check.verdicts}
    return StepDone(f"{check.answer} ({check.triton})", answers={**answers, "answer": check.answer})


def _fetch(case: StepCase) -> StepDone:
    source = case.step.model or ""
    model = artifacts_of(source).model
    fetched = fetch(repository(source, model), revision=model.revision)
    figure = FieldFigure(
        what="weights", unit="bytes", planned=model.tensor_bytes, measured=sum(f.size_bytes for f in fetched.need.files)
    )
    return StepDone(f"{fetched.retries} exchanges repeated", figures=(figure,))


def _start(case: StepCase) -> StepDone:
    directory = case.directory
    if directory is not None and not directory.has(Deployment):  # killed before its engine was started
        shutil.rmtree(directory.path, ignore_errors=True)
        directory = None
    began = time.monotonic()
    if directory is None:
        directory = _started(case)
    else:
        _waited(directory, case.tell)
    residuals = measure(directory, tell=case.tell)
    deployment = directory.read(Deployment)
    took = deployment.ready_seconds or time.monotonic() - began
    given = case.step.estimated_seconds  # an allowance: whoever is sooner was not planned wrongly
    clock = FieldFigure(what="time to the first answer", unit="s", planned=given, low=0.0, high=given, measured=took)
    figures = tuple(memory_figures(residuals)) if residuals is not None else ()
    return StepDone(f"answered after {took:.0f} s", figures=(*figures, clock))


def _started(case: StepCase) -> DeploymentDir:
    step = case.step
    on = On(runtime=step.runtime)
    prepared = prepare_model(
        step.model or "", step.goal or Goal(), LocalHost(), port=_free_port(), tell=case.tell, on=on, box=case.box
    )
    if prepared.recipe is None:
        raise LaunchError(f"it does not fit: {prepared.plan.objections[0].message}")
    directory = register(prepared, on)
    case.started(directory)
    with trying(directory):
        start(prepared, directory, tell=case.tell, on=on)
    return directory


def standing(case: StepCase) -> DeploymentDir:
    """The deployment of its configuration, started again if a kill or a reboot ended it."""
    if case.directory is None:
        raise LaunchError("its engine was not started")
    _waited(case.directory, case.tell)
    return case.directory


def _waited(directory: DeploymentDir, tell: Tell) -> None:
    """Whoever was killed left an engine that comes up by itself, one that stands, or none."""
    while (present := status(directory)).state in _STARTING and present.supervisor is not None:
        time.sleep(0.2)
    if present.state not in ("ready", "degraded"):
        restart(directory, on_change=told(tell))


def _prove(case: StepCase) -> StepDone:
    directory = standing(case)
    evidence = prove_deployment(directory, ProofOptions(PROVED_TO, budget_seconds=case.seconds), case.tell)
    failed = next((one for one in evidence.observations if one.verdict == "failed"), None)
    answers = rung_answers(evidence)
    why = f"{failed.rung}, {failed.probe}: {failed.reason}" if failed else climbed_words(answers)
    return StepDone(why, passed=failed is None, answers=answers)


def _bench(case: StepCase) -> StepDone:
    directory = standing(case)
    plan = directory.read(Plan)
    known, _ = of_deployment(directory)
    row = workloads()[_WORKLOAD].model_copy(update={"search": None})
    asked = SweepRequest(row, _shapes(plan), 1, 0, case.seconds)
    benchmark = bench([known], asked, directory, SweepWatch(tell=case.tell), test=False)
    figures = tuple(speed_figures(benchmark, plan))
    marked = sum(bool(cell.marks) for cell in benchmark.cells)
    why = f"{len(benchmark.cells)} cells, {marked} marked, {len(benchmark.skipped)} not measured"
    return StepDone(why, passed=bool(figures), figures=figures)


def _shapes(plan: Plan) -> tuple[Shape, ...]:
    """Decode with a cache that is hardly filled, and at the context that the plan has a speed for."""
    short = min(SHORT_TOKENS, plan.context_tokens // 4)
    longer = min(plan.speed.context_tokens if plan.speed else plan.context_tokens // 2, plan.context_tokens // 2)
    prompts = dict.fromkeys((short, max(short, longer)))
    return tuple(
        Shape(prompt_tokens=prompt, output_tokens=_ANSWER_TOKENS, concurrency=1, requests=_REQUESTS)
        for prompt in prompts
    )


def end(directory: DeploymentDir) -> None:
    """Stop its engine, if it runs."""
    if directory.has(Deployment) and status(directory).state in RUNNING:
        stop(directory)


def _free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


_ACTIONS: dict[str, Callable[[StepCase], StepDone]] = {
    "probe": _probe, "kernels": _kernels, "fetch": _fetch, "start": _start, "prove": _prove, "bench": _bench,
}  # fmt: skip

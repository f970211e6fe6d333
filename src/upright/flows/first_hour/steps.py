"""Runs one step of a field test."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from upright.base.errors import LaunchError
from upright.base.host import LocalHost
from upright.base.progress import Tell
from upright.facts.records.benchmark import Benchmark, Cell, Shape
from upright.facts.records.box import Box
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.evidence import Evidence
from upright.facts.records.first_hour import FieldFigure, FieldStep
from upright.facts.records.plan import Goal, Plan, Rate
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.flows.line.preparing import LaunchTarget, prepare_model
from upright.flows.line.starting import measure_residuals, register, start, tell_changes
from upright.flows.line.weights import repository
from upright.planning.probing import probe
from upright.planning.requests.plan_arguments import artifacts_of
from upright.proof.benchmark.bench import bench
from upright.proof.benchmark.endpoints import deployment_endpoint
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch
from upright.proof.benchmark.workload import workloads
from upright.proof.ladder.climbing import prove_deployment
from upright.proof.ladder.rung import ProofOptions
from upright.serving.fetch import fetch
from upright.serving.launch import restart, status, stop
from upright.serving.launch.locks import without_restarts

PROVED_TO = "clients"
_WORKLOAD = "short"
_ANSWER_TOKENS, _REQUESTS = 64, 4
_STARTING = ("planned", "pulling", "starting")


@dataclass(frozen=True)
class StepResult:
    """What a step showed."""

    why: str
    passed: bool = True
    figures: tuple[FieldFigure, ...] = ()
    answers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepInput:
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


def run_step(case: StepInput) -> StepResult:
    """UprightError if it cannot be done."""
    return _ACTIONS[case.step.action](case)


def _probe(case: StepInput) -> StepResult:
    box = probe(LocalHost())
    case.keep_box(box)
    wanting = {setting.name: setting.verdict for setting in box.settings if setting.verdict == "attention"}
    found = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in _found(box).items())
    return StepResult(found, answers=dict(wanting))


def _found(box: Box) -> dict[str, int]:
    return {"GPU": len(box.gpus), "engine": len(box.engines)}


def _kernels(case: StepInput) -> StepResult:
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
    return StepResult(f"{check.answer} ({check.triton})", answers={**answers, "answer": check.answer})


def _fetch(case: StepInput) -> StepResult:
    source = case.step.model or ""
    model = artifacts_of(source).model
    fetched = fetch(repository(source, model), revision=model.revision)
    figure = FieldFigure(
        what="weights", unit="bytes", planned=model.tensor_bytes, measured=sum(f.size_bytes for f in fetched.need.files)
    )
    return StepResult(f"{fetched.retries} exchanges repeated", figures=(figure,))


def _start(case: StepInput) -> StepResult:
    directory = case.directory
    if directory is not None and not directory.has(Deployment):  # killed before its engine was started
        shutil.rmtree(directory.path, ignore_errors=True)
        directory = None
    began = time.monotonic()
    if directory is None:
        directory = _started(case)
    else:
        _waited(directory, case.tell)
    residuals = measure_residuals(directory, tell=case.tell)
    deployment = directory.read(Deployment)
    took = deployment.ready_seconds or time.monotonic() - began
    given = case.step.estimated_seconds  # an allowance: whoever is sooner was not planned wrongly
    clock = FieldFigure(what="time to the first answer", unit="s", planned=given, low=0.0, high=given, measured=took)
    figures = tuple(memory_figures(residuals)) if residuals is not None else ()
    return StepResult(f"answered after {took:.0f} s", figures=(*figures, clock))


def _started(case: StepInput) -> DeploymentDir:
    step = case.step
    on = LaunchTarget(runtime=step.runtime)
    prepared = prepare_model(
        step.model or "", step.goal or Goal(), LocalHost(), port=_free_port(), tell=case.tell, on=on, box=case.box
    )
    if prepared.recipe is None:
        raise LaunchError(f"it does not fit: {prepared.plan.objections[0].message}")
    directory = register(prepared, on)
    case.started(directory)
    with without_restarts(directory):
        start(prepared, directory, tell=case.tell, on=on)
    return directory


def started_deployment(case: StepInput) -> DeploymentDir:
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
        restart(directory, on_change=tell_changes(tell))


def _prove(case: StepInput) -> StepResult:
    directory = started_deployment(case)
    evidence = prove_deployment(directory, ProofOptions(PROVED_TO, budget_seconds=case.seconds), case.tell)
    failed = next((one for one in evidence.observations if one.verdict == "failed"), None)
    answers = rung_answers(evidence)
    why = f"{failed.rung}, {failed.probe}: {failed.reason}" if failed else climbed_words(answers)
    return StepResult(why, passed=failed is None, answers=answers)


def _bench(case: StepInput) -> StepResult:
    directory = started_deployment(case)
    plan = directory.read(Plan)
    known, _ = deployment_endpoint(directory)
    row = workloads()[_WORKLOAD].model_copy(update={"search": None})
    asked = SweepRequest(row, _shapes(plan), 1, 0, case.seconds)
    benchmark = bench([known], asked, directory, SweepWatch(tell=case.tell), test=False)
    figures = tuple(speed_figures(benchmark, plan))
    marked = sum(bool(cell.marks) for cell in benchmark.cells)
    why = f"{len(benchmark.cells)} cells, {marked} marked, {len(benchmark.skipped)} not measured"
    return StepResult(why, passed=bool(figures), figures=figures)


def _shapes(plan: Plan) -> tuple[Shape, ...]:
    """Decode with a cache that is hardly filled, and at the context that the plan has a speed for."""
    short = min(SHORT_TOKENS, plan.context_tokens // 4)
    longer = min(plan.speed.context_tokens if plan.speed else plan.context_tokens // 2, plan.context_tokens // 2)
    prompts = dict.fromkeys((short, max(short, longer)))
    return tuple(
        Shape(prompt_tokens=prompt, output_tokens=_ANSWER_TOKENS, concurrency=1, requests=_REQUESTS)
        for prompt in prompts
    )


def stop_engine(directory: DeploymentDir) -> None:
    """Stop its engine, if it runs."""
    if directory.has(Deployment) and status(directory).state in RUNNING:
        stop(directory)


def _free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


_ACTIONS: dict[str, Callable[[StepInput], StepResult]] = {
    "probe": _probe, "kernels": _kernels, "fetch": _fetch, "start": _start, "prove": _prove, "bench": _bench,
}  # fmt: skip


SHORT_TOKENS = 256
"""A prompt that hardly fills a cache: held against the plan's speed with an empty one."""


def memory_figures(residuals: Residuals) -> Iterator[FieldFigure]:
    """Terms that were read, and the KV cache in tokens."""
    for residual in residuals.lines:
        if residual.measured_bytes.value is None:
            continue
        blurred = residual.within is True  # engines round what they say: within is judged with that
        measured = float(residual.measured_bytes.value)
        low, high = residual.predicted_low_bytes, residual.predicted_high_bytes
        if blurred and low is not None and high is not None:
            low, high = min(low, int(measured)), max(high, int(measured))
        yield FieldFigure(
            what=f"{residual.term} on {residual.device}", unit="bytes", planned=residual.predicted_bytes.value,
            low=low, high=high, measured=measured,
        )  # fmt: skip
    pool = residuals.pool
    if pool.measured_tokens.value is not None:
        yield FieldFigure(
            what="KV cache", unit="tokens", planned=pool.predicted_tokens.value, low=pool.predicted_low_tokens,
            high=pool.predicted_high_tokens, measured=float(pool.measured_tokens.value),
        )  # fmt: skip


def speed_figures(benchmark: Benchmark, plan: Plan) -> Iterator[FieldFigure]:
    """Decode at each context, and prefill where the plan has a figure; marked cells say nothing."""
    for cell in benchmark.cells:
        if cell.marks or cell.failed or cell.user_tokens_per_second is None:
            continue
        prompt = cell.shape.prompt_tokens
        yield _rated(f"decode at {prompt:,} context", _decode(plan, prompt), cell.user_tokens_per_second)
        prefill = _prefill(cell)
        if prompt > SHORT_TOKENS and prefill is not None:
            yield _rated(f"prefill of {prompt:,} tokens", plan.speed.prompt if plan.speed else None, prefill)


def rung_answers(evidence: Evidence) -> dict[str, str]:
    """The verdict of each rung."""
    return {rung: evidence.rung_verdict(rung) for rung in evidence.rungs}


def climbed_words(answers: Mapping[str, str]) -> str:
    """`climbed boot, smoke; skipped: task, clients`: what the time left out was not climbed."""
    climbed = ", ".join(rung for rung, verdict in answers.items() if verdict == "passed")
    others = {verdict: [rung for rung in answers if answers[rung] == verdict] for verdict in answers.values()}
    rest = [f"{verdict}: {', '.join(rungs)}" for verdict, rungs in others.items() if verdict != "passed"]
    return "; ".join([f"climbed {climbed or 'nothing'}", *rest])


def _decode(plan: Plan, prompt_tokens: int) -> Rate | None:
    if plan.speed is None:
        return None
    return plan.speed.empty if prompt_tokens <= SHORT_TOKENS else plan.speed.decode


def _prefill(cell: Cell) -> float | None:
    ttft = cell.ttft_seconds
    return cell.shape.prompt_tokens / ttft.mean if ttft is not None and ttft.mean > 0 else None


def _rated(what: str, rate: Rate | None, measured: float) -> FieldFigure:
    if rate is None:
        return FieldFigure(what=what, unit="tok/s", planned=None, measured=measured)
    return FieldFigure(
        what=what, unit="tok/s", planned=rate.best, low=rate.low, high=rate.high, measured=measured
    )  # fmt: skip

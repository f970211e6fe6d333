"""Rehearses a recipe on a model without weights: does the engine start, with how much memory, does it answer?

What it proves is memory, kernels, graphs and communication; what an answer says it cannot prove, the weights are noise.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.files import head_text
from upright.base.errors import EngineError, LaunchError
from upright.base.host import Host, LocalHost, passed_environment
from upright.base.host.contract import TIMED_OUT
from upright.base.progress import Tell
from upright.base.units import MIB
from upright.engines import engine_named
from upright.engines.facets.proof import Allocator, DryRun, DummyWeights, HollowFile, Rehearsing
from upright.engines.memory_report import MemoryReport
from upright.facts.records.deployment import Deployment, Keeping
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.records.rehearsal import Rehearsal, RehearsalMethod, Share
from upright.facts.store import DeploymentDir
from upright.planning.placement.planned_vs_actual import WEIGHTS
from upright.serving.diagnose import LogContext, diagnose_file
from upright.serving.launch import launch, stop
from upright.serving.rehearse.weightless_model import WeightlessModel

_LONGEST_DRY_RUN_SECONDS = 120
_SHARE_OF_MEMORY = 0.5
"""A hollow file fills the page cache as far as it is read: only one well below the machine's memory is started."""
_TERMS = ("weights", "kv_cache", "compute", "activations", "graphs", "runtime", "non_torch")
_QUALITY = "quality of the answers: the weights are not the model's"
_SPEED = "speed: dummy weights may take other paths (experts, caches)"


@dataclass
class _Found:
    """What the ways have shown so far."""

    ways: list[RehearsalMethod]
    shares: list[Share]
    answered: bool = False
    passed: bool = True
    kv_tokens: int | None = None
    code: str | None = None
    said: str = ""


def rehearse(
    recipe: Recipe,
    plan: Plan,
    model: Model,
    husk: WeightlessModel,
    host: Host,
    folder: Path,
    *,
    tell: Tell | None = None,
) -> Rehearsal:
    """In `folder`, which is the caller's to remove; the engine is stopped when this returns, however it returns."""
    say = tell or (lambda _: None)
    how = engine_named(recipe.engine).proof.rehearsal
    if how is None:
        raise EngineError(f"how {recipe.engine} is rehearsed is not known", hint="start it: upright up")
    started = time.monotonic()
    recipe = _on(husk, recipe)
    if isinstance(host, LocalHost):  # an engine's own tools read a file of others as an engine does
        host = LocalHost(passed_environment(os.environ, "engine"))
    findings = _Found([], [])
    match how:
        case DummyWeights():
            _boot(_with(recipe, how.setting), "dummy weights", plan, folder, findings, say)
        case DryRun():
            _dry_run(how, recipe, plan, host, folder, findings, say)
        case HollowFile():
            _hollow(how, recipe, plan, model, husk, host, folder, findings, say)
    return Rehearsal(
        made_from=(recipe.reference, plan.reference, model.reference),
        model=model.name,
        engine=recipe.engine,
        engine_version=recipe.engine_version,
        ways=tuple(findings.ways),
        passed=findings.passed,
        answered=findings.answered,
        context_tokens=recipe.context_tokens,
        kv_tokens=findings.kv_tokens,
        planned_kv_tokens=plan.kv.planned_tokens if plan.memory_fraction is None else plan.kv.low_tokens,
        shares=tuple(findings.shares),
        weights_bytes=model.tensor_bytes,
        fetched_bytes=husk.fetched_bytes,
        written_bytes=husk.written_bytes,
        seconds=round(time.monotonic() - started, 2),
        proved=tuple(_proved(findings, how, recipe)),
        not_proved=tuple(_not_proved(findings, how)),
        code=findings.code,
        said=findings.said,
    )


def _hollow(
    how: HollowFile,
    recipe: Recipe,
    plan: Plan,
    model: Model,
    husk: WeightlessModel,
    host: Host,
    folder: Path,
    found: _Found,
    tell: Tell,
) -> None:
    known = how.allocator
    tool = find_allocator(known, recipe, host) if known else None
    if known is not None and tool is not None:
        tell(f"asking {engine_named(recipe.engine).title}'s allocator")
        allotment = run_allocator(known, tool, recipe, husk.path, host)
        found.ways.append("allocator")
        found.passed = bool(allotment.bytes)
        found.shares += [
            _share(plan, device, what, size, known.tool) for (device, what), size in allotment.bytes.items()
        ]
        if not allotment.bytes:
            (folder / "allocator.log").write_text(allotment.text, encoding="utf-8")
            _diagnose(folder / "allocator.log", recipe.engine, found)
            return
    if model.tensor_bytes < _SHARE_OF_MEMORY * _available_bytes(host):
        _boot(_with(recipe, how.setting), "hollow file", plan, folder, found, tell)


def _available_bytes(host: Host) -> int:
    """What this machine has now, whatever the plan assumed; 0 if it does not say."""
    mem_available = re.search(r"^MemAvailable:\s+(\d+) kB", host.read_text("/proc/meminfo") or "", re.MULTILINE)
    return int(mem_available[1]) * 1024 if mem_available else 0


def _boot(recipe: Recipe, way: RehearsalMethod, plan: Plan, folder: Path, found: _Found, tell: Tell) -> None:
    tell(f"starting {recipe.engine} with {way}")
    found.ways.append(way)
    directory = DeploymentDir(folder / "rehearsal")
    directory.path.mkdir(mode=0o700)
    with _started(recipe, directory) as deployment:
        if deployment is None:
            found.passed = False
            _diagnose(directory.log, recipe.engine, found)
        else:
            found.answered = True
        report = engine_named(recipe.engine).log.memory(head_text(directory.log))
    _read_back(report, plan, found)


@contextmanager
def _started(recipe: Recipe, directory: DeploymentDir) -> Iterator[Deployment | None]:
    """The supervisor asks the first question; None if there was no answer."""
    try:
        try:
            yield launch(recipe, directory, keeping=Keeping(restarts=0))
        except LaunchError:
            if not directory.log.exists():
                raise
            yield None
    finally:
        if directory.has(Deployment):
            stop(directory)


def _dry_run(how: DryRun, recipe: Recipe, plan: Plan, host: Host, folder: Path, found: _Found, tell: Tell) -> None:
    """Its code says nothing: what it printed of its buffers does. One that crashes, or does not end, proves nothing."""
    tell(f"asking {engine_named(recipe.engine).title} for a dry run")
    found.ways.append("dry run")
    command = [word for word in recipe.argv if "{" not in word and word not in how.without]
    done = host.run([*command, *how.words], timeout_seconds=_LONGEST_DRY_RUN_SECONDS)
    (folder / "dry-run.log").write_text(f"{done.out}\n{done.err}", encoding="utf-8")
    report = engine_named(recipe.engine).log.memory(f"{done.out}\n{done.err}")
    found.passed = any(reading.what == "kv_cache" for reading in report.readings)
    if not found.passed and (done.code < 0 or done.code == TIMED_OUT or done.code > 128):
        how_so = "did not end" if done.code == TIMED_OUT else "crashed"
        raise EngineError(
            f"not proved: the dry run of this {recipe.engine} {how_so}, which says nothing of the model",
            hint="a start tells: upright up",
        )
    _read_back(report, plan, found)
    if not found.passed:
        _diagnose(folder / "dry-run.log", recipe.engine, found)


def _read_back(report: MemoryReport, plan: Plan, found: _Found) -> None:
    """A start's own log is finer than the allocator's whole mebibytes, and takes its place."""
    read = {
        (entry.device, entry.what): _share(plan, entry.device, entry.what, round(entry.value), entry.line)
        for entry in report.readings
        if entry.what in _TERMS and entry.device
    }
    found.shares = [entry for entry in found.shares if (entry.device, entry.what) not in read] + list(read.values())
    tokens = report.of("kv_tokens")
    found.kv_tokens = int(tokens.value) if tokens else None


def _share(plan: Plan, device: str, what: str, size: int, source: str) -> Share:
    return Share(device=device, what=what, bytes=size, planned_bytes=_planned(plan, device, what), source=source[:300])


def _planned(plan: Plan, device: str, what: str) -> int | None:
    """The plan's lines for it; it tells the weights apart by kind, an engine's log does not."""
    terms = {"weights": WEIGHTS}.get(what, (what,))
    lines = [line.bytes for line in plan.ledger if line.device == device and line.term in terms]
    return sum(lines) if lines else None


def _diagnose(log: Path, engine: str, found: _Found) -> None:
    diagnosis = diagnose_file(log, around=LogContext(engine=engine, failed=True))
    found.code = diagnosis.code
    found.said = diagnosis.excerpt[-1].text if diagnosis.excerpt else ""


def _on(husk: WeightlessModel, recipe: Recipe) -> Recipe:
    """The same recipe on the model without weights."""
    arguments = tuple(
        argument.model_copy(update={"value": husk.path}) if argument.value == recipe.model_path else argument
        for argument in recipe.arguments
    )
    return recipe.model_copy(update={"arguments": arguments, "model_path": husk.path})


def _with(recipe: Recipe, setting: Setting) -> Recipe:
    kept = tuple(argument for argument in recipe.arguments if argument.name != setting.name)
    return recipe.model_copy(update={"arguments": (*kept, setting)})


def _proved(found: _Found, how: Rehearsing, recipe: Recipe) -> Iterator[str]:
    if not found.passed:
        return
    yield "memory: the engine placed every tensor, cache and buffer of this size" if found.shares else "it starts"
    if found.answered:
        yield "kernels: a question went through every layer"
        if isinstance(how, DummyWeights) and recipe.gpus:
            yield "graphs: captured as they will be"
        if recipe.gpus > 1:
            yield f"communication: {recipe.gpus} GPUs exchanged real sizes"
        yield "the command: this build takes every flag"


def _not_proved(found: _Found, how: Rehearsing) -> Iterator[str]:
    if not found.answered:
        yield "kernels: no question was asked; the file is larger than this machine's memory can hold"
    yield _QUALITY
    yield _SPEED
    if isinstance(how, DryRun):
        yield from how.not_proved


@dataclass(frozen=True)
class AllocatorReport:
    """What the allocator said."""

    bytes: dict[tuple[str, str], int]
    """By device and term; whole mebibytes, as it prints them."""
    text: str


def find_allocator(known: Allocator, recipe: Recipe, host: Host) -> str | None:
    """The tool beside the engine's program, or on the path; None if this build has none."""
    beside = Path(recipe.program).with_name(known.tool)
    return str(beside) if beside.exists() else host.which(known.tool)


def run_allocator(
    known: Allocator, tool: str, recipe: Recipe, model: str, host: Host, *, timeout_seconds: float = 300
) -> AllocatorReport:
    options = [
        word
        for argument in recipe.arguments
        if argument.name in known.takes
        for word in (argument.name, argument.value or "")
    ]
    done = host.run([tool, "--model", model, *options, *known.words], timeout_seconds=timeout_seconds)
    text = f"{done.out}\n{done.err}"
    device_bytes = {
        (_device(row["device"]), term): int(row[column]) * MIB
        for row in re.finditer(known.row, done.out, re.MULTILINE)
        for column, term in known.terms.items()
    }
    return AllocatorReport(device_bytes if done.ok else {}, text)


def _device(name: str) -> str:
    number = re.search(r"\d+$", name)
    return f"gpu{number[0]}" if number else "host"

"""Planned vs actual memory of a running deployment, from its engine's log, metrics and processes.

What cannot be read is said and left out: an engine that serves is never held up by its bookkeeping.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes, head_text
from upright.base.errors import EndpointError
from upright.base.progress import utc_now
from upright.base.units import format_memory
from upright.engines import engine_named, has_slots
from upright.engines.memory_report import HOST, MemoryReport
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Box
from upright.facts.records.deployment import RUNNING, Deployment, Process
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.planning.placement.planned_vs_actual import StartReading, planned_vs_actual
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import Metrics, read_metrics
from upright.serving.launch.processes import members


def read_back(directory: DeploymentDir) -> Residuals:
    """Read, compare, and keep the record beside the others, for the next plan.

    What a recipe took that is not the plan's any more is shown, but teaches nothing: it was measured with other flags.
    """
    residuals = residuals_of(directory)
    if not _edited(directory):
        directory.write(residuals)
    return residuals


def residuals_of(directory: DeploymentDir) -> Residuals:
    """What it says now; the metrics and the processes only if it runs."""
    deployment, plan, recipe = directory.read(Deployment), directory.read(Plan), directory.read(Recipe)
    text = head_text(directory.log) if directory.log.exists() else ""
    report = engine_named(recipe.engine).log.memory(text)
    asked = _ask(directory, deployment, recipe)
    process, least, why = _process(deployment, report)
    unread = [*([] if report.readings else [f"the log of {deployment.name} says nothing about memory"]), *asked.unread]
    if _edited(directory):
        unread.append("the recipe was changed after the plan was made: differences are not the plan's")
    seen = StartReading(
        report=report,
        pool_tokens=asked.pool_tokens,
        pool_bytes=asked.pool_bytes,
        process_bytes=process,
        process_low_bytes=least,
        unread=(*unread, *([why] if why else [])),
    )
    identity = directory.read(Box).identity
    return planned_vs_actual(plan, seen, deployment=deployment.name, at=utc_now(), box_identity=identity)


@dataclass(frozen=True)
class EngineCache:
    """An engine's cache in its own words."""

    tokens: int | None
    """Tokens that it holds; None if the engine does not say."""
    bytes: int | None
    """Memory of all caches, a draft's among them; None if the log does not say."""


def engine_cache(directory: DeploymentDir) -> EngineCache:
    """The cache of the engine that runs now: tokens from its metrics, memory from its log."""
    deployment, recipe = directory.read(Deployment), directory.read(Recipe)
    text = head_text(directory.log) if directory.log.exists() else ""
    report = engine_named(recipe.engine).log.memory(text)
    cache_bytes = [reading.value for reading in report.readings if reading.what == "kv_cache"]
    logged = report.of("kv_tokens")
    asked = _ask(directory, deployment, recipe).pool_tokens.value
    tokens = logged.value if asked is None and logged is not None else asked
    return EngineCache(None if tokens is None else round(tokens), round(sum(cache_bytes)) if cache_bytes else None)


def _edited(directory: DeploymentDir) -> bool:
    """Whether it was started again by another recipe than its plan's; the older ones are kept by number. A new recipe
    of a new plan is that plan's own."""
    older = [_parents(path) for path in directory.path.glob("recipe-*.json")]
    if not older:
        return False
    plan = directory.read(Plan).reference
    return plan not in directory.read(Recipe).made_from or any(plan in made_from for made_from in older)


def _parents(path: Path) -> tuple[str, ...]:
    """What a kept recipe was made from; one that is damaged was made from nothing that is known."""
    try:
        recipe = parse_json(file_bytes(path, own=True))
    except (OSError, ValueError):
        return ()
    parents = recipe.get("made_from") if isinstance(recipe, dict) else None
    return tuple(str(parent) for parent in parents) if isinstance(parents, list) else ()


@dataclass(frozen=True)
class _Asked:
    pool_tokens: Figure
    pool_bytes: Figure
    unread: tuple[str, ...] = ()


def _ask(directory: DeploymentDir, deployment: Deployment, recipe: Recipe) -> _Asked:
    nothing = unknown("the engine does not run: only its log was read")
    if deployment.state not in RUNNING:
        return _Asked(nothing, nothing)
    try:
        with Endpoint(deployment.base_url, deployment.served_name, key=directory.key(), timeout_seconds=20) as endpoint:
            metrics = read_metrics(endpoint.text(recipe.metrics_path)) if recipe.metrics_path else Metrics()
            tokens = _figure(metrics.kv_tokens, f"{recipe.metrics_path}")
            if tokens.value is None and has_slots(recipe.engine):
                tokens = _slots(endpoint)
    except EndpointError as error:
        return _Asked(unknown(error.message), unknown(error.message), (error.message,))
    # Guard: SGLang says 0 for the pools of DeepSeek V4 (https://github.com/sgl-project/sglang/issues/37852)
    return _Asked(tokens, _figure(metrics.kv_bytes or None, f"{recipe.metrics_path}"))


def _slots(endpoint: Endpoint) -> Figure:
    """llama-server tells the context of a slot, and how many there are."""
    props = endpoint.json("/props")
    slot = props.get("default_generation_settings", {}).get("n_ctx")
    count = props.get("total_slots")
    if not isinstance(slot, int) or not isinstance(count, int):
        return unknown("/props does not tell slots and their context")
    return Figure(value=slot * count, basis="measured", source=f"/props: {count} slots of {slot:,} tokens")


def _figure(value: float | None, source: str) -> Figure:
    if value is None:
        return unknown("the engine does not say")
    return Figure(value=int(value), basis="measured", source=source)


def _process(deployment: Deployment, report: MemoryReport) -> tuple[Figure, int | None, str | None]:
    """System RAM beside the engine's buffers, the least it can be, and why there is no figure."""
    why: str | None = None
    resident_memory: ResidentMemory | None = None
    if deployment.state not in RUNNING or deployment.process is None:
        pass
    elif deployment.runtime != "process" or deployment.machine is not None:
        why = "the engine's system RAM was not read: it runs in a container or on another machine"
    elif (resident_memory := measure_resident(deployment.process)) is None:
        why = "the engine's system RAM was not read: the kernel does not tell it to this user"
    if resident_memory is None:
        return unknown(why or "the engine does not run"), None, why
    most, least = _beside_buffers(deployment.engine, resident_memory, report)
    total = f"{format_memory(_total(resident_memory))} resident in {resident_memory.processes} processes (smaps_rollup)"
    source = f"{total}, less weights and cache"
    return Figure(value=most, basis="measured", source=source), least, None


def _beside_buffers(engine: str, found: ResidentMemory, report: MemoryReport) -> tuple[int, int]:
    """Buffers are surely resident where the engine writes to them when it makes them; scratch may never be touched."""
    weights, cache, scratch = (_on_host(report, what) for what in ("weights", "kv_cache", "compute"))
    log = engine_named(engine).log
    mapped = min(found.file_bytes, weights) if log.maps_weights else 0
    touched = cache if log.clears_cache else 0
    most = max(0, _total(found) - mapped - touched)
    return most, max(0, most - scratch - (cache - touched))


def _on_host(report: MemoryReport, what: str) -> int:
    return int(sum(reading.value for reading in report.readings if reading.what == what and reading.device == HOST))


def _total(found: ResidentMemory) -> int:
    return found.anonymous_bytes + found.file_bytes + found.shared_bytes


_KIB = 1024


@dataclass(frozen=True)
class ResidentMemory:
    """Bytes of system RAM."""

    anonymous_bytes: int
    """What the processes made themselves."""
    file_bytes: int
    """What they mapped: programs, libraries, weights."""
    shared_bytes: int
    """What they share by name."""
    processes: int
    """How many there are."""


def measure_resident(led_by: Process) -> ResidentMemory | None:
    """None if the kernel does not say, for any of them: half a sum is no measurement."""
    pids = members(led_by)
    rollups = [_rollup(pid) for pid in pids]
    if not pids or None in rollups:
        return None
    known = [rollup for rollup in rollups if rollup is not None]
    anonymous, file, shared = (sum(rollup.get(name, 0) for rollup in known) for name in _NAMES)
    return ResidentMemory(anonymous, file, shared, len(pids))


_NAMES = ("Pss_Anon", "Pss_File", "Pss_Shmem")


def _rollup(pid: int) -> dict[str, int] | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    pairs = (line.split(":", 1) for line in lines if line.startswith("Pss_"))
    return {name: int(size_text.split()[0]) * _KIB for name, size_text in pairs} or None

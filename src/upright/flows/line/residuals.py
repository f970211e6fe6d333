"""Planned vs actual memory of a deployment, or of a log that somebody sent."""

from __future__ import annotations

from upright.base.progress import utc_now
from upright.engines import ENGINES, engine_named
from upright.engines.memory_report import MemoryReport
from upright.facts.records.box import Box
from upright.facts.records.deployment import RUNNING
from upright.facts.records.plan import Plan
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.planning.placement.planned_vs_actual import StartReading, planned_vs_actual
from upright.serving.diagnose import engine_of
from upright.serving.diagnose.scan import HEAD_BYTES
from upright.serving.launch import status
from upright.serving.launch.readback import read_back, residuals_of


def present_residuals(directory: DeploymentDir) -> Residuals:
    """Read anew while it runs; of one that does not, what was kept: its metrics are gone."""
    if status(directory).state in RUNNING:
        return read_back(directory)
    return directory.read(Residuals) if directory.has(Residuals) else residuals_of(directory)


def residuals_of_log(directory: DeploymentDir, log: str) -> Residuals:
    """Another log against this deployment's plan."""
    plan = directory.read(Plan)
    seen = StartReading(engine_named(plan.engine).log.memory(log))
    return planned_vs_actual(
        plan, seen, deployment=directory.name, at=utc_now(), box_identity=directory.read(Box).identity
    )


def memory_of_log(log: str, engine: str | None) -> tuple[str | None, MemoryReport]:
    """By the engine that was named or that the lines tell, else by the one that reads most; None if none does."""
    told = engine or engine_of(log[:HEAD_BYTES])
    if told is not None:
        return told, engine_named(told).log.memory(log)
    reports = {name: engine.log.memory(log) for name, engine in ENGINES.items()}
    best = max(reports, key=lambda name: len(reports[name].readings))
    return best if reports[best].readings else None, reports[best]

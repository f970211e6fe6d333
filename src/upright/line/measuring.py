"""A deployment, or a log that somebody sent -> what its engine took."""

from __future__ import annotations

from upright.diagnosing import engine_of
from upright.diagnosing.scan import HEAD_BYTES
from upright.engines import ENGINES, engine_named
from upright.engines.memory_report import MemoryReport
from upright.launching import status
from upright.launching.readback import read_back, residuals_of
from upright.planning.comparing import StartReading, compare
from upright.progress import utc_now
from upright.records.box import Box
from upright.records.deployment import RUNNING
from upright.records.plan import Plan
from upright.records.residuals import Residuals
from upright.store import DeploymentDir


def present_residuals(directory: DeploymentDir) -> Residuals:
    """Read anew while it runs; of one that does not, what was kept: its metrics are gone."""
    if status(directory).state in RUNNING:
        return read_back(directory)
    return directory.read(Residuals) if directory.has(Residuals) else residuals_of(directory)


def residuals_of_log(directory: DeploymentDir, log: str) -> Residuals:
    """Another log against this deployment's plan."""
    plan = directory.read(Plan)
    seen = StartReading(engine_named(plan.engine).log.memory(log))
    return compare(plan, seen, deployment=directory.name, at=utc_now(), box_identity=directory.read(Box).identity)


def memory_of_log(log: str, engine: str | None) -> tuple[str | None, MemoryReport]:
    """By the engine that was named or that the lines tell, else by the one that reads most; None if none does."""
    told = engine or engine_of(log[:HEAD_BYTES])
    if told is not None:
        return told, engine_named(told).log.memory(log)
    reports = {name: engine.log.memory(log) for name, engine in ENGINES.items()}
    best = max(reports, key=lambda name: len(reports[name].readings))
    return best if reports[best].readings else None, reports[best]

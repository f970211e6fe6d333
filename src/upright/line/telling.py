"""A deployment's records -> one page of them."""

from __future__ import annotations

from pathlib import Path

from upright import store
from upright.benchmarking.bench import kept
from upright.launching import status
from upright.proving.trials import trials
from upright.records.box import Box
from upright.records.diagnosis import Attempts
from upright.records.evidence import Evidence
from upright.records.model import Model
from upright.records.plan import Plan
from upright.records.recipe import Recipe
from upright.records.residuals import Residuals
from upright.records.speculation import Speculation
from upright.reporting import Subject, report
from upright.reporting.proof import looks
from upright.store import DeploymentDir


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
        speculation=directory.read(Speculation) if directory.has(Speculation) else None,
        earlier_trials=trials(directory)[:-1],
        looks=tuple(looks(directory.observations())),
    )

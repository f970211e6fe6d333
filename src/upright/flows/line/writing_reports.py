"""Writes reports of deployments and benchmarks: HTML, Markdown or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from upright.base.errors import UsageError
from upright.evidence.report import Subject, cells_csv, markdown, report
from upright.evidence.report.rung_history import rung_runs
from upright.facts import store
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.diagnosis import Attempts
from upright.facts.records.evidence import Evidence
from upright.facts.records.loading import load
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.records.speculation import Speculation
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import saved_benchmarks
from upright.proof.ladder.trials import trials
from upright.serving.launch import status

ReportFormat = Literal["html", "md", "csv"]
_RECORDS = (".json", ".yaml", ".yml")


def write_report(directory: DeploymentDir, path: Path | None = None) -> Path:
    """One self-contained page of what is on disk."""
    page = path or directory.path / "report.html"
    store.write_atomically(page, report(report_subject(directory)).encode())
    return page


def write_named_report(names: tuple[str, ...], ending: ReportFormat, path: Path | None = None) -> Path:
    """Of the deployments and files of benchmarks that are named, of the last deployment if none is: where it is."""
    subjects = [_named(name) for name in names] or [_named(None)]
    texts = {"csv": lambda: _cells(subjects), "md": lambda: markdown(*subjects), "html": lambda: report(*subjects)}
    text = texts[ending]()
    page = path.absolute() if path else _usual_place(names, ending)
    store.write_atomically(page, text.encode())
    return page


def report_subject(directory: DeploymentDir) -> Subject:
    return Subject(
        box=directory.read(Box),
        model=directory.read(Model),
        plan=directory.read(Plan),
        recipe=directory.read(Recipe),
        deployment=status(directory),
        evidence=directory.read(Evidence) if directory.has(Evidence) else None,
        benchmarks=saved_benchmarks(directory),
        attempts=directory.read(Attempts) if directory.has(Attempts) else None,
        residuals=directory.read(Residuals) if directory.has(Residuals) else None,
        speculation=directory.read(Speculation) if directory.has(Speculation) else None,
        earlier_trials=trials(directory)[:-1],
        looks=tuple(rung_runs(directory.observations())),
    )


def _named(name: str | None) -> Subject | Benchmark:
    return (
        load(Path(name), Benchmark)
        if name is not None and name.endswith(_RECORDS)
        else report_subject(store.find(name))
    )


def _cells(subjects: list[Subject | Benchmark]) -> str:
    benchmarks = [
        benchmark
        for subject in subjects
        for benchmark in (subject.benchmarks if isinstance(subject, Subject) else (subject,))
    ]
    if not benchmarks:
        raise UsageError("there is no benchmark to write", hint="upright bench")
    return cells_csv(benchmarks)


def _usual_place(names: tuple[str, ...], ending: ReportFormat) -> Path:
    """In the deployment's directory; here for several, and for a file."""
    if len(names) > 1 or (names and names[0].endswith(_RECORDS)):
        return Path.cwd() / f"report.{ending}"
    return store.find(names[0] if names else None).path / f"report.{ending}"

"""Facts of a published report -> Statements: what somebody else claims, with its source and without raw data.

A report is a file of facts in `reports/`: its tables as published, and of each configuration the model, the box, the
engine and the flags as far as it states them. What it does not state is not filled in: 0 tokens or users are unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from upright.base.errors import RecordError
from upright.base.yaml12 import from_yaml
from upright.evidence.share.anonymous import HOST, PORT, shared_recipe
from upright.evidence.share.statement import (
    ClaimedMetric,
    ClaimedTable,
    Headline,
    Predicate,
    Publication,
    SharedBox,
    SharedEngine,
    SharedModel,
    StatedSubject,
    Statement,
)
from upright.facts import catalog
from upright.facts.records.base import Part
from upright.facts.records.recipe import Circumstances, Recipe, Runtime, Setting
from upright.proof.benchmark.rows import METRIC

REPORTS = Path(__file__).parent / "reports"
RUN = "published"
_NUMBER = re.compile(r"([0-9][0-9,]*(?:\.[0-9]+)?)\s*(ms|s|tok/s|t/s)?")


class ReportedFigures(Part):
    """Which columns of a table are figures of which configuration."""

    of: str
    """The configuration's subject."""
    row: int | None = None
    """Only this row; None for all."""
    shape: str
    """The shape, in words; `{Column}` stands for that column's cell."""
    metrics: dict[str, ClaimedMetric]
    """Column -> what it measures."""


class ReportedTable(Part):
    """A table as published."""

    title: str
    """What it is about, in our words."""
    columns: tuple[str, ...]
    """Their headings."""
    rows: tuple[tuple[str, ...], ...]
    """Cells as published."""
    measured: tuple[ReportedFigures, ...] = ()
    """Which of them are headlines."""


class ReportedConfiguration(Part):
    """One configuration of a report: a bundle of its own."""

    name: str
    """Of its file."""
    model: str
    """The catalogue's row."""
    repository: str | None
    """On the hub, if it is stated."""
    model_path: str | None = None
    """What the engine loaded, if that is not the repository."""
    gpu: str
    """The catalogue's row of the GPU."""
    gpus: int
    """How many."""
    topology: dict[str, int] = Field(default_factory=dict)
    """Kinds of path between two GPUs, as far as they are stated."""
    engine: str
    """Which engine."""
    engine_version: str | None = None
    """Its version, if it is stated."""
    runtime: Runtime = "process"
    """How it was started."""
    image: str | None = None
    """The container image, if it is stated."""
    packages: tuple[str, ...] = ()
    """What was installed into it."""
    patches: tuple[str, ...] = ()
    """What the build carried that upstream had not."""
    program: str
    """The command."""
    served_name: str
    """As clients call the model."""
    draft: str | None = None
    """The draft model."""
    context_tokens: int = 0
    """Context for each user; 0 if it is not stated."""
    users: int = 0
    """Requests at once; 0 if it is not stated."""
    subject: str | None = None
    """What the tables' figures call it; the model's row if there is none."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables, as published."""
    arguments: str = ""
    """Flags as published, in a shell's spelling."""


class Report(Part):
    """A publication: its tables, and the configurations that they are about."""

    title: str
    """Of the publication."""
    at: str
    """Its date, as far as it is stated."""
    url: str | None = None
    """Where it was published, if that is known."""
    sha256: str
    """Of the text that the facts were taken from; of facts that are rows of the catalogue, of these rows."""
    bundles: tuple[ReportedConfiguration, ...]
    """One bundle each."""
    tables: tuple[ReportedTable, ...]
    """All of it; every bundle holds all of them."""


def reports(folder: Path = REPORTS) -> tuple[Report, ...]:
    """Every report whose facts are kept."""
    return tuple(Report.model_validate(from_yaml(file.read_text("utf-8"))) for file in sorted(folder.glob("*.yaml")))


def statements(report: Report) -> dict[str, Statement]:
    """Name -> a statement for each configuration; the same facts give the same bytes."""
    return {configuration.name: _statement(report, configuration) for configuration in report.bundles}


def _statement(report: Report, stated: ReportedConfiguration) -> Statement:
    recipe = _recipe(stated)
    gpu = catalog.gpu(stated.gpu)
    return Statement(
        subject=(StatedSubject(name=f"recipe of {stated.model}", digest={"sha256": recipe.digest}),),
        predicate=Predicate(
            made_at=report.at,
            detectors={},
            source=Publication(title=report.title, at=report.at, sha256=report.sha256, url=report.url),
            model=SharedModel(name=stated.model, repository=stated.repository, revision=None, shards=()),
            engine=SharedEngine(
                name=recipe.engine, version=recipe.engine_version, commit=recipe.engine_commit, image=recipe.image
            ),
            box=SharedBox(
                kind=f"{stated.gpus}x {gpu.device_names[0]}", gpu=gpu.id, gpus=stated.gpus, driver=None, cuda=None,
                nccl=None, topology=stated.topology, box_id=None,
            ),
            headlines=tuple(_headlines(report, stated.subject or stated.model)),
            records={"recipe": recipe.to_dict()},
            tables=tuple(
                ClaimedTable(title=table.title, columns=table.columns, rows=table.rows) for table in report.tables
            ),
        ),
    )  # fmt: skip


def _recipe(stated: ReportedConfiguration) -> Recipe:
    return shared_recipe(
        Recipe(
            engine=stated.engine, engine_version=stated.engine_version, runtime=stated.runtime, program=stated.program,
            image=stated.image, packages=stated.packages, circumstances=_circumstances(stated),
            arguments=tuple(settings_of(stated.arguments)),
            environment=tuple(Setting(name=name, value=text, reason="") for name, text in stated.environment.items()),
            model_path=stated.model_path or stated.repository or stated.model, draft=stated.draft,
            served_name=stated.served_name, host=HOST, port=PORT, context_tokens=stated.context_tokens,
            users=stated.users, health_path="/health", metrics_path=None, gpus=stated.gpus,
        )
    )  # fmt: skip


def _circumstances(stated: ReportedConfiguration) -> Circumstances | None:
    return Circumstances(model=stated.model, box_gpus=stated.gpus, patches=stated.patches) if stated.patches else None


def settings_of(arguments: str) -> Iterator[Setting]:
    """Flags of a shell's line; a word after one that is no flag is its value."""
    pieces = shlex.split(arguments)
    for position, piece in enumerate(pieces):
        if piece.startswith("-"):
            after = pieces[position + 1] if position + 1 < len(pieces) else "-"
            yield Setting(name=piece, value=None if after.startswith("-") else after, reason="")


def _headlines(report: Report, subject: str) -> Iterator[Headline]:
    for table in report.tables:
        for figures in table.measured:
            if figures.of == subject:
                for row in table.rows if figures.row is None else table.rows[figures.row : figures.row + 1]:
                    yield from _row_figures(table, figures, row)


def _row_figures(table: ReportedTable, figures: ReportedFigures, row: tuple[str, ...]) -> Iterator[Headline]:
    cells = dict(zip(table.columns, row, strict=True))
    shape = re.sub(r"\{([^}]*)\}", lambda column: cells[column[1]], figures.shape)
    for column, metric in figures.metrics.items():
        if cells[column]:
            unit = METRIC[metric].unit
            yield Headline(
                run=RUN, shape=shape, metric=metric, unit=unit, figure=_figure(cells[column], unit), repeats=1
            )


def _figure(cell: str, unit: str) -> float:
    """`1,324 ms` is 1.324 s."""
    number = _NUMBER.fullmatch(cell)
    if number is None:
        raise RecordError(f"{cell} is no figure in {unit}")
    amount = float(number[1].replace(",", ""))
    return round(amount / 1000, 9) if number[2] == "ms" else amount

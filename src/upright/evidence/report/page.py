"""Records -> one HTML file that needs no network and says where every number came from.

One deployment is told from its verdict down to its digests; of several the page says first which is better, where, by
how much and how sure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from upright import __version__
from upright.base import units
from upright.evidence.report import charts, views
from upright.evidence.report.reference_distance import HEADINGS, DistanceTable, distance_table
from upright.evidence.report.reproduction import reproduction_commands
from upright.evidence.report.speculation import CandidateRow, candidate_rows
from upright.evidence.report.subject import Subject as Subject
from upright.facts.records.base import Record
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.evidence import Evidence
from upright.proof.benchmark.comparison import shape_words
from upright.proof.benchmark.rows import ShapeRow, rows
from upright.proof.benchmark.statistics import Mean

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Tile:
    """One figure that matters, and what it is."""

    value: str
    words: str
    basis: str = ""


@dataclass(frozen=True)
class Story:
    """One deployment, ready for the template."""

    subject: Subject
    verdict: tuple[str, str]
    """(class, words)."""
    tiles: list[Tile]
    sweeps: list[views.Sweep]
    ladder: list[views.RungView]
    groups: list[views.BarShare]
    devices: list[tuple[str, int, list[views.BarShare]]]
    memory_chart: charts.Chart | None
    chain: list[tuple[str, str]]
    guessed: list[CandidateRow]
    """What came of speculative decoding, by candidate."""
    history: list[tuple[str, ...]]
    """Every look at a rung: when, which, with which recipe, what came of it."""
    reproduce: list[str] = field(default_factory=list)


def report(*subjects: Subject | Benchmark) -> str:
    """The page of one deployment, or of several compared; benchmarks of others may stand among them."""
    stories = [_story(subject) for subject in subjects if isinstance(subject, Subject)]
    loose = [views.sweep(subject) for subject in subjects if isinstance(subject, Benchmark)]
    environment = Environment(
        loader=PackageLoader("upright.evidence.report", "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "memory": units.format_memory, "size": units.format_size, "tokens": units.format_tokens,
        "duration": units.format_duration, "place": shape_words,
    }  # fmt: skip
    return environment.get_template("page.html.j2").render(
        version=__version__,
        title=title(subjects),
        stories=stories,
        loose=loose,
        contests=subject_comparisons(subjects),
        differing=differing(subjects),
        likeness=compared_distances(subjects),
        likeness_headings=HEADINGS,
    )


def title(subjects: Sequence[Subject | Benchmark]) -> str:
    names = [name for name, _ in _named(subjects)]
    if len(names) > 1:
        return " against ".join(names)
    only = subjects[0]
    return f"{only.model.name} on {only.box.name}" if isinstance(only, Subject) else only.title


def subject_comparisons(subjects: Sequence[Subject | Benchmark]) -> list[views.BenchComparison]:
    pairs = [
        (name, record)
        for name, subject in _named(subjects)
        for record in ((subject,) if isinstance(subject, Benchmark) else subject.benchmarks)
    ]
    return views.bench_comparisons(pairs)


def differing(subjects: Sequence[Subject | Benchmark]) -> list[tuple[str, str, str]]:
    recipes = [subject.recipe for subject in subjects if isinstance(subject, Subject)]
    return views.differing(*recipes) if len(recipes) == 2 else []


def compared_distances(subjects: Sequence[Subject | Benchmark]) -> DistanceTable | None:
    return distance_table(
        [(subject.deployment.name, subject.proof) for subject in subjects if isinstance(subject, Subject)]
    )


def _named(subjects: Sequence[Subject | Benchmark]) -> list[tuple[str, Subject | Benchmark]]:
    """By name; benchmarks of one name by the occasion too."""
    names = [subject.deployment.name if isinstance(subject, Subject) else subject.title for subject in subjects]
    same = {name: [subject for at, subject in enumerate(subjects) if names[at] == name] for name in names}
    return [
        (
            name
            if len(same[name]) == 1 or isinstance(subject, Subject)
            else f"{name} ({_occasion(subject, same[name])})",
            subject,
        )
        for name, subject in zip(names, subjects, strict=True)
    ]


def _occasion(record: Benchmark, beside: Sequence[Subject | Benchmark]) -> str:
    """The day, or as much of the time as tells it from the others; its place among them if nothing does."""
    others = [other for other in beside if isinstance(other, Benchmark) and other is not record]
    for end in (10, 16, 19):
        if record.at and all(other.at[:end] != record.at[:end] for other in others):
            return record.at[:end].replace("T", " ")
    return f"no. {next(number for number, other in enumerate(beside, 1) if other is record)}"


def _story(subject: Subject) -> Story:
    return Story(
        subject=subject,
        verdict=verdict(subject),
        tiles=tiles(subject),
        sweeps=[views.sweep(record) for record in subject.benchmarks],
        ladder=views.ladder(subject.proof, draw=True),
        groups=views.groups(subject.model),
        devices=views.devices(subject.plan),
        memory_chart=_memory_chart(subject),
        chain=provenance(subject),
        guessed=candidate_rows(subject.speculation) if subject.speculation else [],
        history=history(subject),
        reproduce=reproduction_commands(subject),
    )


def history(subject: Subject) -> list[tuple[str, ...]]:
    """(when, rung, recipe, verdict, checks), the newest first; empty where one climb is all there was."""
    if len(subject.looks) <= len({look.rung for look in subject.looks}):
        return []
    ours = subject.recipe.reference
    return [
        (
            look.at[:16].replace("T", " "), look.rung, _recipe_words(look.recipe, ours), look.verdict,
            f"{look.passed} of {len(look.observations)}",
        )
        for look in reversed(subject.looks)
    ]  # fmt: skip


def _recipe_words(recipe: str | None, ours: str) -> str:
    if recipe == ours:
        return "the recipe that runs"
    return "not recorded" if recipe is None else recipe.partition(":")[2][:12]


def verdict(subject: Subject) -> tuple[str, str]:
    evidence = subject.proof
    if evidence is None:
        return "skipped", "Started, not proved"
    if evidence.passed and evidence.able:
        return "passed", f"It stands: {_passed_words(evidence)}"
    if evidence.passed:
        return "unsupported", f"It stands, but the model is weak: {_passed_words(evidence)}"
    return "failed", "It does not stand: a check failed"


def _passed_words(evidence: Evidence) -> str:
    """How much was seen, where it ended, and what was not seen."""
    counts = Counter(observation.verdict for observation in evidence.observations)
    last = next(observation.rung for observation in reversed(evidence.observations) if observation.verdict == "passed")
    kinds = {
        "wrong": counts["wrong"],
        "unsupported": counts["unsupported"],
        "skipped": counts["skipped"] - evidence.not_run(),
    }
    others = [f"{count} {kind}" for kind, count in {**kinds, "not run": evidence.not_run()}.items() if count]
    passed = f"{counts['passed']} of {counts.total()} checks passed, the last of them in {last}"
    return "; ".join([passed, ", ".join(others)]) if others else passed


def tiles(subject: Subject) -> list[Tile]:
    """The few figures that people ask for first."""
    plan, evidence = subject.plan, subject.proof
    figures = [Tile(units.format_tokens(plan.context_tokens), "tokens of context a user", "planned")]
    if evidence is not None:
        passed = sum(observation.verdict == "passed" for observation in evidence.observations)
        figures.append(Tile(f"{passed} of {len(evidence.observations)}", "checks passed", "measured"))
    ours = (None, subject.recipe.digest)  # an A/B holds cells of another recipe too
    cells = (cell for record in subject.benchmarks for cell in record.cells if cell.recipe in ours)
    figures += _speeds([row for row in rows(cells) if not row.marked]) or _rates(evidence)
    if subject.deployment.ready_seconds is not None:
        label = "from start to the first real answer"
        figures.append(Tile(units.format_duration(subject.deployment.ready_seconds), label, "measured"))
    return figures


def _speeds(clean: list[ShapeRow]) -> list[Tile]:
    """Means of the clean repeats, with what was asked; one user's are not averaged over prompts of many lengths."""
    figures = []
    measured = [(mean, row.shape) for row in clean if (mean := row.mean("output"))]
    if measured:
        most, shape = max(measured, key=lambda pair: pair[0].value)
        figures.append(
            Tile(f"{most.value:,.0f}{_sure(most)}", f"output tokens a second: {shape_words(shape)}", "measured")
        )
    single = [row for row in clean if row.shape.concurrency == 1 and row.shape.arrival == "closed"]
    alone = sorted((mean for row in single if (mean := row.mean("user"))), key=lambda mean: mean.value)
    if alone:
        prompts = sorted(row.shape.prompt_tokens for row in single)
        label = f"tokens a second for one user alone: {_range(prompts[0], prompts[-1])} in"
        figure = _range(alone[0].value, alone[-1].value) + (_sure(alone[0]) if len(alone) == 1 else "")
        figures.append(Tile(figure, label, "measured"))
    return figures


def _rates(evidence: Evidence | None) -> list[Tile]:
    """Where nothing was benchmarked: as the proof's own answers showed them."""
    figures = []
    if evidence is not None and (rates := evidence.decode_rates()):
        answers = "1 answer" if len(rates) == 1 else f"{len(rates)} answers"
        figures.append(Tile(f"{median(rates):,.0f} tok/s", f"decode, median of {answers} of the proof", "measured"))
    if evidence is not None and (prefill := evidence.longest_prefill()):
        rate, length = prefill
        figures.append(Tile(f"{rate:,.0f} tok/s", f"prefill of {units.format_tokens(length)} tokens", "measured"))
    return figures


def _sure(mean: Mean) -> str:
    """Half of the interval around it, as the tables below have it."""
    return "" if mean.high is None else f" ±{mean.high - mean.value:,.0f}"


def _range(low: float, high: float) -> str:
    ends = dict.fromkeys((f"{low:,.0f}", f"{high:,.0f}"))
    return " to ".join(ends)


def _memory_chart(subject: Subject) -> charts.Chart | None:
    """Planned beside measured, where both are known."""
    if subject.residuals is None:
        return None
    parts = []
    for line in subject.residuals.lines:
        if line.predicted_bytes.value is not None and line.measured_bytes.value is not None:
            name = f"{line.device} {line.term}"
            parts.append(("planned", name, line.predicted_bytes.value / units.MIB))
            parts.append(("measured", name, line.measured_bytes.value / units.MIB))
    return charts.bars(parts[:24], "MiB")


def provenance(subject: Subject) -> list[tuple[str, str]]:
    records: list[Record | None] = [
        subject.box, subject.model, subject.plan, subject.recipe, subject.deployment, subject.evidence,
        subject.residuals, subject.attempts, *subject.benchmarks, subject.speculation,
    ]  # fmt: skip
    return [(record.kind, record.digest) for record in records if record is not None]

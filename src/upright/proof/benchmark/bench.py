"""Benchmarks an endpoint, or several in turns."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from upright.base import bounds, units
from upright.base.errors import EndpointError, UsageError
from upright.facts.records.benchmark import Benchmark, Cell, SelfTest, Shape, Skipped
from upright.facts.records.box import Box
from upright.facts.records.loading import load
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.store import DeploymentDir, write_atomically
from upright.planning.requests.calibration import measurement_plan
from upright.planning.speed.campaign import REQUESTS_EACH
from upright.proof.benchmark.cell import BenchSubject
from upright.proof.benchmark.comparison import compare, comparison_sentences
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.prompts import gauge
from upright.proof.benchmark.rows import rows
from upright.proof.benchmark.search import search
from upright.proof.benchmark.selftest import self_test
from upright.proof.benchmark.server import Server
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch, begin, benchmark, shapes_that_fit, sweep
from upright.proof.benchmark.synthetic_traces import generate_trace
from upright.proof.benchmark.trace_replay import longest_tokens, slo_finding, trace_shape
from upright.proof.benchmark.workload import workload
from upright.serving.endpoint.metrics import read_metrics

_CONTEXT = 32_768
"""Of an endpoint that does not say (assumed)."""
_SELF_TEST_SECONDS, _MOST_OF_BUDGET = 3.0, 0.1
"""What a test of the generator takes, and the part of a budget that it may have."""
LETTERS = "abcdefgh"
"""What the compared are called in cells and tables."""


def subject(known: KnownEndpoint, letter: str = "a", question: str | None = None) -> BenchSubject:
    """Ask the server what words cost, and whether it will ignore the end of an answer."""
    with Server(known.target) as server:
        target, _ = server.told_to_ignore_the_end()
        return BenchSubject(
            target,
            gauge(server.prompt_tokens, server.text_tokens, question),
            known.metrics_path,
            known.recipe,
            letter,
            known.enter,
        )


def bench(
    known: Sequence[KnownEndpoint],
    asked: SweepRequest,
    directory: DeploymentDir,
    watch: SweepWatch | None = None,
    *,
    test: bool = True,
) -> Benchmark:
    """Measure one endpoint, or several in turns; every cell is on the disk before the next begins. The budget runs from
    the first question on, whatever the peer does."""
    watch, began = watch or SweepWatch(), time.monotonic()
    asked = planned_cells(_traced(asked, known), directory)
    with contextlib.nullcontext() if asked.budget_seconds is None else bounds.time_limit(asked.budget_seconds):
        subjects = [subject(endpoint, letter, asked.question) for endpoint, letter in zip(known, LETTERS, strict=False)]
        asked, skipped = _within(asked, known, [_pool_tokens(endpoint) for endpoint in known])
    about = [
        part for endpoint in known for part in (endpoint.target.base_url, endpoint.target.model, endpoint.recipe or "")
    ]
    course = begin(asked, directory, about, watch, began)
    course.skipped += skipped
    tested = _tested(asked, watch) if test and asked.shapes else None
    finding = None
    if asked.workload.search is None:
        whole = sweep(course, subjects)
        if asked.trace is not None and asked.promise is not None:
            finding = _joined(
                {
                    subject.letter: words
                    for subject in subjects
                    if (words := slo_finding([c for c in course.cells if c.subject == subject.letter], asked.promise))
                },
                known,
            )
    else:
        whole, findings = search(course, subjects)
        finding = _joined(findings, known)
    if len(known) == 2:
        finding = " ".join(filter(None, (finding, compared_subjects(course.cells, _names(known))[0])))
    if whole:
        course.finish()
    first = known[0]
    record = benchmark(
        course, subjects[0], title=first.name, deployment=first.deployment, engine=first.engine,
        version=first.engine_version, made_from=first.made_from, self_test=tested, finding=finding,
        names=_names(known) if len(known) > 1 else {},
    )  # fmt: skip
    save_benchmark(directory, record)
    return record


def _tested(asked: SweepRequest, watch: SweepWatch) -> SelfTest | None:
    """The generator itself, where the budget has time for that."""
    if asked.budget_seconds is not None and asked.budget_seconds * _MOST_OF_BUDGET < _SELF_TEST_SECONDS:
        watch.tell(f"the generator itself is not tested: {units.format_duration(asked.budget_seconds)} are for cells")
        return None
    most = max(shape.concurrency for shape in asked.shapes)
    watch.tell(f"testing the generator itself with {most} streams")
    return self_test(most)


def _traced(asked: SweepRequest, known: Sequence[KnownEndpoint]) -> SweepRequest:
    """With the agents' trace, where the workload replays one, and the shapes that follow from it."""
    name = asked.workload.name
    if not asked.workload.trace:
        if asked.trace is not None:
            raise UsageError(f"{name} replays no trace", hint="--workload agents --trace FILE")
        return asked
    usual = workload(name).model_copy(update={"concurrency": asked.workload.concurrency})
    if tuple(usual.shapes()) != asked.shapes:
        raise UsageError(f"{name} has the lengths and times of its trace", hint="--concurrency 1,4, or --trace FILE")
    counts = sorted({shape.concurrency for shape in asked.shapes})
    context = min((endpoint.context_tokens for endpoint in known if endpoint.context_tokens), default=_CONTEXT)
    row, trace = asked.workload, asked.trace
    if trace is None:
        trace = generate_trace(counts[-1], row.turns, context, asked.seed)
    else:
        row = row.model_copy(update={"about": f"{trace.title} (agent-trace {trace.digest[:12]})"})
    agents = sorted({min(count, trace.agents) for count in counts})
    return replace(asked, workload=row, trace=trace, shapes=tuple(trace_shape(trace, count) for count in agents))


def compared_subjects(cells: Iterable[Cell], names: dict[str, str]) -> list[str]:
    """Which of the two is better, by how much and how sure that is, in sentences: the sum first."""
    measured = rows(cells)
    first, second = ([row for row in measured if row.subject == letter] for letter in ("a", "b"))
    return comparison_sentences(compare(first, second), names)


def _joined(findings: dict[str, str], known: Sequence[KnownEndpoint]) -> str | None:
    """What was found, by name where several were searched."""
    if len(known) < 2:
        return next(iter(findings.values()), None)
    names = _names(known)
    return "; ".join(f"{names[letter]}: {finding}" for letter, finding in findings.items()) or None


def _names(known: Sequence[KnownEndpoint]) -> dict[str, str]:
    return {letter: endpoint.name for letter, endpoint in zip(LETTERS, known, strict=False)}


def save_benchmark(directory: DeploymentDir, record: Benchmark) -> None:
    """The newest as `benchmark.json`, and each under its run's name."""
    folder = directory.path / "benchmarks"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{record.run}.json", record.to_json().encode())
    directory.write(record)


def saved_benchmarks(directory: DeploymentDir) -> tuple[Benchmark, ...]:
    """The newest of each workload, in the order in which they were made."""
    files = (directory.path / "benchmarks").glob("*.json")
    benchmarks = sorted((load(file, Benchmark) for file in files), key=lambda record: record.at)
    return tuple({record.workload: record for record in benchmarks}.values())


def _within(
    asked: SweepRequest, known: Sequence[KnownEndpoint], sizes: list[int | None]
) -> tuple[SweepRequest, list[Skipped]]:
    """Without the cells that cannot be held: all by the context, those of a matrix by the cache too."""
    pools = [size for size in sizes if size]
    contexts = [endpoint.context_tokens for endpoint in known if endpoint.context_tokens]
    pool = min(pools) if pools and asked.workload.contexts else None
    context = min(contexts) if contexts else None
    judged = list(_bounded_replay(asked, context) if asked.trace else shapes_that_fit(asked.shapes, pool, context))
    skipped = [candidate for candidate in judged if isinstance(candidate, Skipped)]
    kept = tuple(candidate for candidate in judged if not isinstance(candidate, Skipped))
    return replace(asked, shapes=kept), skipped


def _bounded_replay(asked: SweepRequest, context_tokens: int | None) -> Iterator[Shape | Skipped]:
    assert asked.trace is not None
    for shape in asked.shapes:
        longest = longest_tokens(asked.trace, shape.concurrency)
        if context_tokens is not None and longest > context_tokens:
            yield Skipped(shape=shape, reason=f"a turn of {longest:,} tokens, and the context is {context_tokens:,}")
        else:
            yield shape


def _pool_tokens(known: KnownEndpoint) -> int | None:
    """Tokens that the engine's cache holds, by its own metrics if it says so."""
    if known.metrics_path is not None:
        with Server(known.target) as server:
            page = server.text(known.metrics_path)
        if page is not None:
            with contextlib.suppress(EndpointError):
                kv_tokens = read_metrics(page).kv_tokens
                return known.pool_tokens if kv_tokens is None else round(kv_tokens)
    return known.pool_tokens


def planned_cells(asked: SweepRequest, directory: DeploymentDir) -> SweepRequest:
    """As it was asked for, unless its workload leaves the cells to the plan."""
    if not asked.workload.planned:
        return asked
    if tuple(workload(asked.workload.name).shapes()) != asked.shapes:
        raise UsageError(f"{asked.workload.name} chooses its own cells", hint="--budget and --repeats say how many")
    if not (directory.path / "plan.json").exists():
        raise UsageError(
            f"{asked.workload.name} follows a plan, and nobody planned this endpoint", hint="upright bench DEPLOYMENT"
        )
    assert asked.budget_seconds is not None
    plan, model, box = directory.read(Plan), directory.read(Model), directory.read(Box)
    cells = measurement_plan(plan, model, box, asked.budget_seconds, asked.repeats).cells
    expected_seconds = {
        Shape(
            prompt_tokens=cell.prompt_tokens,
            output_tokens=cell.output_tokens,
            concurrency=cell.users,
            requests=REQUESTS_EACH * cell.users,
        ): cell.seconds
        for cell in cells
    }
    return replace(asked, shapes=tuple(expected_seconds), expected_seconds=expected_seconds)

"""An endpoint + what was asked -> a Benchmark."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from upright.benchmarking.cell import Subject
from upright.benchmarking.known import Known
from upright.benchmarking.prompts import gauge
from upright.benchmarking.search import search
from upright.benchmarking.selftest import self_test
from upright.benchmarking.server import Server
from upright.benchmarking.sweep import Asked, Watch, begin, benchmark, bounded, sweep
from upright.endpoint.metrics import read_metrics
from upright.errors import EndpointError
from upright.records.benchmark import Benchmark, Skipped
from upright.records.loading import load
from upright.store import DeploymentDir, write_atomically

LETTERS = "abcdefgh"
"""What the compared are called in cells and tables."""


def subject(known: Known, letter: str = "a", question: str | None = None) -> Subject:
    """Ask the server what words cost, and whether it will ignore the end of an answer."""
    with Server(known.target) as server:
        target, _ = server.told_to_ignore_the_end()
        return Subject(
            target,
            gauge(server.prompt_tokens, server.text_tokens, question),
            known.metrics_path,
            known.recipe,
            letter,
            known.enter,
        )


def bench(
    known: Sequence[Known], asked: Asked, directory: DeploymentDir, watch: Watch | None = None, *, test: bool = True
) -> Benchmark:
    """Measure one endpoint, or several in turns; every cell is on the disk before the next begins."""
    watch = watch or Watch()
    subjects = [subject(each, letter, asked.question) for each, letter in zip(known, LETTERS, strict=False)]
    asked, skipped = _within(asked, known, [_pool_tokens(each) for each in known])
    about = [part for each in known for part in (each.target.base_url, each.target.model, each.recipe or "")]
    course = begin(asked, directory, about, watch)
    course.skipped += skipped
    tested = None
    if test and asked.shapes:
        most = max(shape.concurrency for shape in asked.shapes)
        watch.tell(f"testing the generator itself with {most} streams")
        tested = self_test(most)
    finding = None
    if asked.workload.search is None:
        whole = sweep(course, subjects)
    else:
        whole, findings = search(course, subjects)
        finding = _joined(findings, known)
    if whole:
        course.finish()
    first = known[0]
    record = benchmark(
        course, subjects[0], title=first.name, deployment=first.deployment, engine=first.engine,
        version=first.engine_version, made_from=first.made_from, self_test=tested, finding=finding,
        names={letter: each.name for letter, each in zip(LETTERS, known, strict=False)} if len(known) > 1 else {},
    )  # fmt: skip
    keep(directory, record)
    return record


def _joined(findings: dict[str, str], known: Sequence[Known]) -> str | None:
    """What was found, by name where several were searched."""
    if len(known) < 2:
        return next(iter(findings.values()), None)
    names = {letter: endpoint.name for letter, endpoint in zip(LETTERS, known, strict=False)}
    return "; ".join(f"{names[letter]}: {finding}" for letter, finding in findings.items()) or None


def keep(directory: DeploymentDir, record: Benchmark) -> None:
    """The newest as `benchmark.json`, and each under its run's name."""
    folder = directory.path / "benchmarks"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{record.run}.json", record.to_json().encode())
    directory.write(record)


def kept(directory: DeploymentDir) -> tuple[Benchmark, ...]:
    """The newest of each workload, in the order in which they were made."""
    files = (directory.path / "benchmarks").glob("*.json")
    found = sorted((load(file, Benchmark) for file in files), key=lambda record: record.at)
    return tuple({record.workload: record for record in found}.values())


def _within(asked: Asked, known: Sequence[Known], sizes: list[int | None]) -> tuple[Asked, list[Skipped]]:
    """Without the cells that cannot be held: all by the context, those of a matrix by the cache too."""
    pools = [size for size in sizes if size]
    contexts = [each.context_tokens for each in known if each.context_tokens]
    pool = min(pools) if pools and asked.workload.contexts else None
    judged = list(bounded(asked.shapes, pool, min(contexts) if contexts else None))
    skipped = [item for item in judged if isinstance(item, Skipped)]
    kept = tuple(item for item in judged if not isinstance(item, Skipped))
    return replace(asked, shapes=kept), skipped


def _pool_tokens(known: Known) -> int | None:
    """Tokens that the engine's cache holds, by its own metrics if it says so."""
    if known.metrics_path is not None:
        with Server(known.target) as server:
            page = server.text(known.metrics_path)
        if page is not None:
            with contextlib.suppress(EndpointError):
                said = read_metrics(page).kv_tokens
                return known.pool_tokens if said is None else round(said)
    return known.pool_tokens

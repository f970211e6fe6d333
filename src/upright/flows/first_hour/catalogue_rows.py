"""FieldBundle -> rows of the catalogue, as a change that somebody reviews: a unified diff, for `git apply`.

Only of statements that hold: each is verified first. Nothing of ours is written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from importlib.resources import files
from typing import Any

from upright.base.untrusted_text import on_one_line
from upright.evidence.share.statement import Statement
from upright.evidence.share.verifying import Claim, read_claim, verify
from upright.facts import catalog
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.first_hour import FieldBundle
from upright.facts.records.plan import Parallel, Plan
from upright.facts.records.residuals import Residuals
from upright.flows.first_hour.field_bundle import statements_of

MEASUREMENTS, POOLS = "measurements/field.csv", "pools.csv"
_COLUMNS = (
    "id", "date", "model", "artifact", "engine", "engine_version", "gpu", "gpu_count", "cpu", "parallelism", "kv_dtype",
    "context_tokens", "concurrency", "kind", "decode_tokens_per_second", "prefill_tokens_per_second", "kv_tokens",
    "ttft_seconds", "tpot_ms", "grade", "group", "notes", "sources",
)  # fmt: skip
_LONGEST_CELL = 200
_GRADE = "B"
"""Measured with raw samples, once; a reviewer may raise it."""


@dataclass
class ProposedRows:
    """Rows by file, and what was not taken."""

    rows: dict[str, list[dict[str, str]]] = field(default_factory=lambda: {MEASUREMENTS: [], POOLS: []})
    refused: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        return {"rows": self.rows, "refused": self.refused}

    def diff(self) -> str:
        return "".join(_diff(name, rows) for name, rows in self.rows.items() if rows)


def propose(bundle: FieldBundle) -> ProposedRows:
    proposed = ProposedRows()
    for statement in statements_of(bundle):
        verification = verify(statement, statement.identity)
        named = f"{verification.model} on {verification.box}, {verification.engine}"
        if verification.level == "broken":
            proposed.refused.append(f"{named}: {verification.broken[0].reason}")
            continue
        claim = read_claim(statement)
        rows = list(_measurements(statement, claim))
        if not rows:
            proposed.refused.append(f"{named}: no cell without marks was measured")
        proposed.rows[MEASUREMENTS] += rows
        proposed.rows[POOLS] += _pools(statement, claim)
    return proposed


def _measurements(statement: Statement, claim: Claim) -> Iterator[dict[str, str]]:
    plan, box, residuals = claim.of(Plan), claim.of(Box), claim.of(Residuals)
    if plan is None or box is None:
        return
    shared = {
        **_subject(statement), "artifact": statement.predicate.model.repository, "cpu": box.cpu.name,
        "gpu_count": statement.predicate.box.gpus or None, "parallelism": _parallelism(plan.parallel),
        "kv_dtype": plan.kv.dtype, "kv_tokens": residuals.pool.measured_tokens.value if residuals else None,
        "kind": "decode", "group": f"field-{statement.identity[:8]}", "notes": "upright tools field-test",
    }  # fmt: skip
    for number, figures in enumerate(_cells(claim.benchmarks), 1):
        yield _row({**shared, "id": f"field-{statement.identity[:8]}-{number}", **figures}, _COLUMNS)


def _cells(benchmarks: Iterable[Benchmark]) -> Iterator[dict[str, Any]]:
    for cell in (cell for benchmark in benchmarks for cell in benchmark.cells):
        if cell.marks or cell.failed or cell.user_tokens_per_second is None or cell.tpot_seconds is None:
            continue
        ttft, shape = cell.ttft_seconds, cell.shape
        yield {
            "context_tokens": shape.prompt_tokens, "concurrency": shape.concurrency,
            "decode_tokens_per_second": round(cell.user_tokens_per_second * shape.concurrency, 2),
            "prefill_tokens_per_second": round(shape.prompt_tokens / ttft.mean, 1) if ttft and ttft.mean else None,
            "ttft_seconds": round(ttft.mean, 4) if ttft else None, "tpot_ms": round(1000 * cell.tpot_seconds.mean, 3),
        }  # fmt: skip


def _pools(statement: Statement, claim: Claim) -> list[dict[str, str]]:
    """Of models and GPUs that the catalogue has, where the engine took a share of each GPU and told its pool."""
    plan, residuals, gpu = claim.of(Plan), claim.of(Residuals), statement.predicate.box.gpu
    shared_model = statement.predicate.model
    known = catalog.find_model(shared_model.repository or shared_model.name)
    if plan is None or residuals is None or known is None or gpu is None or plan.memory_fraction is None:
        return []
    if residuals.pool.measured_tokens.value is None:
        return []
    figures = {
        **_subject(statement), "id": f"field-{statement.identity[:8]}", "image": statement.predicate.engine.image,
        "model": known.id, "tensor": plan.parallel.tensor, "decode_context": plan.parallel.decode_context,
        "draft": "none", "memory_fraction": plan.memory_fraction, "graphs_counted": 1, "kv_dtype": plan.kv.dtype,
        "tokens": residuals.pool.measured_tokens.value, "note": "upright tools field-test",
    }  # fmt: skip
    header = _text(POOLS).splitlines()[0].split(",")
    return [_row(figures, header)]


def _subject(statement: Statement) -> dict[str, Any]:
    predicate = statement.predicate
    return {
        "date": predicate.made_at[:10], "model": predicate.model.name, "engine": predicate.engine.name,
        "engine_version": predicate.engine.version, "gpu": predicate.box.gpu or "none", "grade": _GRADE,
        "sources": f"field test, statement sha256:{statement.identity}",
    }  # fmt: skip


def _parallelism(parallel: Parallel) -> str:
    named = f"TP{parallel.tensor} DCP{parallel.decode_context}"
    return named + (f" PP{parallel.pipeline}" if parallel.pipeline > 1 else "") + (" EP" if parallel.expert else "")


def _row(figures: dict[str, Any], columns: Iterable[str]) -> dict[str, str]:
    """What a bundle says stands in one cell of one line."""
    cells = {name: figures.get(name) for name in columns}
    return {name: "" if cell is None else on_one_line(str(cell), _LONGEST_CELL) for name, cell in cells.items()}


def _diff(name: str, rows: list[dict[str, str]]) -> str:
    before = _text(name)
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    if not before:
        writer.writeheader()
    writer.writerows(rows)
    path = f"src/upright/facts/catalog/{name}"
    return "".join(
        unified_diff(
            before.splitlines(keepends=True), (before + written.getvalue()).splitlines(keepends=True),
            f"a/{path}" if before else "/dev/null", f"b/{path}",
        )
    )  # fmt: skip


def _text(name: str) -> str:
    file = files("upright.facts.catalog").joinpath(name)
    return file.read_text("utf-8") if file.is_file() else ""

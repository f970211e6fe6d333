"""`llama-bench` <-> its words and its JSON: the engine alone, without a server and without a queue.

Its rows are of two kinds: prompt processing (pp) and token generation (tg); a row is a cell with one request.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from upright.base.errors import ReadError
from upright.engines.facets.bench import BenchTarget, BenchTool, Foreign
from upright.facts.records.benchmark import Shape
from upright.facts.records.spreads import spread_of


def argv(
    program: str, target: BenchTarget, shape: Shape, _folder: PurePath, _tokenizer: str | None, _seed: int
) -> list[str]:
    """`target.model` is the file; there is no server."""
    return [
        program, "-m", target.model, "-p", str(shape.prompt_tokens), "-n", str(shape.output_tokens), "-o", "json",
    ]  # fmt: skip


def recognises(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "avg_ts" in data[0]


def read(data: list[dict[str, Any]]) -> list[Foreign]:
    try:
        return [_one(row) for row in data]
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ReadError(f"not a result of llama-bench: {error!r}") from None


def _one(row: dict[str, Any]) -> Foreign:
    prompt, output = int(row["n_prompt"]), int(row["n_gen"])
    rates = [float(rate) for rate in row.get("samples_ts") or [row["avg_ts"]]]
    tpot = spread_of([1 / rate for rate in rates]) if output else None
    seconds = sum((prompt + output) / rate for rate in rates)
    return Foreign(
        program="llama-bench",
        version=str(row.get("build_number") or row.get("build_commit") or "") or None,
        shape=Shape(prompt_tokens=prompt, output_tokens=output, concurrency=1, requests=len(rates)),
        seconds=seconds,
        sent=len(rates),
        succeeded=len(rates),
        output_tokens_per_second=float(row["avg_ts"]) if output else 0.0,
        total_tokens_per_second=float(row["avg_ts"]),
        requests_per_second=len(rates) / seconds,
        ttft=spread_of([prompt / rate for rate in rates]) if prompt and not output else None,
        tpot=tpot,
        at=str(row.get("test_time", "")),
        notes=("the engine alone: no server, no queue, no sampling",),
    )


TOOL = BenchTool("llama-bench", "llama-bench", argv, "stdout.txt", recognises, read)

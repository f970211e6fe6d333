"""Served loads that aiconfigurator publishes, as runs that constants are fitted on: too many to be rows.

Its package aiconfigurator-core 0.12.0 (Apache-2.0), systems/silicon_sample.csv: times of an output token by vLLM and
SGLang with 1 to 64 users, of models with experts that the catalogue has, without replicas of attention; of several
versions of one setting the middle. Left out are runs that are faster than their builds' bytes can be read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.speed.published import FittedCell, fitted_on, load_of, sample

FILE = Path(__file__).with_name("served_loads.csv")
ROWS = {"vllm-nvlink": "vllm", "sglang-nvlink": "sglang"}
"""Rows of speeds whose GPUs those are."""
_NAMED = "aiconfigurator-"


@cache
def known_cells(name: str, *, prompts: bool = False) -> tuple[FittedCell, ...]:
    """All that a row's constants are fitted on."""
    more = tuple(_served(ROWS[name])) if name in ROWS and not prompts else ()
    return (*fitted_on(name, prompts=prompts), *more)


def of(cell: FittedCell) -> bool:
    """Whether it is one of these loads."""
    return cell.id.startswith(_NAMED)


def _served(engine: str) -> Iterator[FittedCell]:
    with FILE.open(encoding="utf-8", newline="") as opened:
        for number, line in enumerate(csv.DictReader(opened)):
            if line["engine"] != engine:
                continue
            run = _run(f"{_NAMED}{number}", line)
            made, load = sample(run), load_of(run)
            assert made is not None, line
            assert load is not None, line
            yield FittedCell(run, made, load)


def _run(name: str, line: dict[str, str]) -> MeasurementRow:
    users, read, written = (int(line[column]) for column in ("users", "input", "output"))
    milliseconds, ranks = float(line["milliseconds"]), line["ranks"]
    return MeasurementRow(
        id=name,
        grade="B",
        sources=("pypi/aiconfigurator-core==0.12.0: systems/silicon_sample.csv",),
        date="2026",
        model=line["artifact"].rpartition("/")[2].lower(),
        artifact=line["artifact"],
        engine=line["engine"],
        engine_version=line["version"],
        gpu=line["gpu"],
        gpu_count=int(ranks),
        interconnect="NVLink",
        parallelism=f"TP{ranks} EP{ranks}" if line["whole_experts"] == "1" else f"TP{ranks}",
        speculation="none",
        context_tokens=read + written // 2,
        concurrency=users,
        kind="aggregate",
        decode_tokens_per_second=1e3 * users / milliseconds,
        tpot_ms=milliseconds,
        group=f"aiconfigurator {line['artifact']} {line['gpu']}",
        notes=f"mean input {read}, mean output {written} tokens",
    )

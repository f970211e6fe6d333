"""Runs other load generators, and reads result files of any of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_text
from upright.base.errors import EngineError, ReadError, UsageError
from upright.base.host import passed_environment
from upright.engines import ENGINES
from upright.engines.facets.bench import BenchTool, Foreign
from upright.facts.records.benchmark import Benchmark, Shape
from upright.proof.benchmark.drivers import aiperf, guidellm, table
from upright.proof.benchmark.drivers.foreign import cell_of
from upright.proof.benchmark.load import LoadTarget

OURS = (aiperf.TOOL, guidellm.TOOL)
"""Those that belong to no engine."""


@cache
def drivers() -> Mapping[str, BenchTool]:
    """By the name that people type."""
    tools = (*(engine.bench for engine in ENGINES.values()), *OURS)
    return {tool.name: tool for tool in tools if tool is not None}


def driver_named(name: str) -> BenchTool:
    if name not in drivers():
        raise UsageError(f"no load generator named {name}", hint=f"known: {', '.join(drivers())}")
    return drivers()[name]


def drive(
    name: str, target: LoadTarget, shape: Shape, *,
    program: str | None = None, tokenizer: str | None = None, seed: int = 0, seconds: float = 600,
) -> list[Foreign]:  # fmt: skip
    """Run the tool to its end. EngineError with its own last words if it fails."""
    driver = driver_named(name)
    executable = program or shutil.which(driver.program)
    if executable is None:
        raise EngineError(f"{driver.program} is not on the PATH", hint=f"--program PATH says where {name} is")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        argv = driver.argv(executable, target, shape, place, tokenizer, seed)
        environment = passed_environment(os.environ, "tool") | ({"OPENAI_API_KEY": target.key} if target.key else {})
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise EngineError(f"{name} did not end in {seconds:g} s") from None
        except OSError as error:
            raise EngineError(f"{executable} cannot be started: {error.strerror}") from None
        (place / "stdout.txt").write_text(done.stdout, encoding="utf-8")
        file = place / driver.result
        if done.returncode != 0 or not file.exists():
            last_line = (done.stderr.strip() or done.stdout.strip() or "no words").splitlines()[-1]
            raise EngineError(f"{name} ended with code {done.returncode}: {last_line[:300]}")
        return driver.read(_parsed(file))


def read_result_file(path: Path) -> Benchmark:
    """A result of any of the tools, or a published table as CSV."""
    if path.suffix == ".csv":
        return table.read(_text(path))
    payload = _parsed(path)
    for driver in drivers().values():
        if driver.recognises(payload):
            cells = tuple(
                cell_of(measurement, run=path.stem, workload="imported") for measurement in driver.read(payload)
            )
            return Benchmark(
                run=path.stem, title=path.stem, workload="imported", about=f"measured with {driver.name}",
                deployment=None, model=_model(payload), engine=None, engine_version=None, base_url=None,
                at=cells[0].at if cells else "", seed=0, repeats=1, self_test=None, cells=cells,
            )  # fmt: skip
    raise ReadError(f"{path} is no result of {', '.join(drivers())}", hint="or a table of published figures, as .csv")


def _model(data: Any) -> str:
    if isinstance(data, list):
        return str(data[0].get("model_filename", "unknown"))
    return str(data.get("model_id") or data.get("model") or "unknown")


def _parsed(path: Path) -> Any:
    try:
        return parse_json(_text(path))
    except ValueError as error:
        raise ReadError(f"{path} is not JSON: {error}") from None


def _text(path: Path) -> str:
    try:
        return file_text(path, errors="replace")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path} cannot be read: {error}") from None

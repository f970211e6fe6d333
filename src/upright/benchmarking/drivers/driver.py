"""A tool's name + a shape -> its cells; a result file -> a Benchmark, whichever tool wrote it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upright.benchmarking.drivers import aiperf, guidellm, llamabench, table, vllm
from upright.benchmarking.drivers.foreign import Foreign
from upright.benchmarking.load import Target
from upright.errors import EngineError, ReadError
from upright.host import handed_on
from upright.records.benchmark import Benchmark, Shape


@dataclass(frozen=True)
class Driver:
    """One tool."""

    name: str
    program: str
    argv: Callable[[str, Target, Shape, Path, str | None, int], list[str]]
    result: Callable[[Path], Path]
    recognises: Callable[[Any], bool]
    read: Callable[[Any], list[Foreign]]


DRIVERS: dict[str, Driver] = {
    name: Driver(name, program, tool.argv, tool.result, tool.recognises, tool.read)
    for name, program, tool in (
        ("vllm", "vllm", vllm),
        ("aiperf", "aiperf", aiperf),
        ("guidellm", "guidellm", guidellm),
        ("llama-bench", "llama-bench", llamabench),
    )
}


def drive(
    name: str, target: Target, shape: Shape, *,
    program: str | None = None, tokenizer: str | None = None, seed: int = 0, seconds: float = 600,
) -> list[Foreign]:  # fmt: skip
    """Run the tool to its end. EngineError with its own last words if it fails."""
    driver = DRIVERS[name]
    found = program or shutil.which(driver.program)
    if found is None:
        raise EngineError(f"{driver.program} is not on the PATH", hint=f"--program PATH says where {name} is")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        argv = driver.argv(found, target, shape, place, tokenizer, seed)
        environment = handed_on(os.environ, "tool") | ({"OPENAI_API_KEY": target.key} if target.key else {})
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
        except subprocess.TimeoutExpired:
            raise EngineError(f"{name} did not end in {seconds:g} s") from None
        except OSError as error:
            raise EngineError(f"{found} cannot be started: {error.strerror}") from None
        (place / "stdout.txt").write_text(done.stdout)
        file = driver.result(place)
        if done.returncode != 0 or not file.exists():
            words = (done.stderr.strip() or done.stdout.strip() or "no words").splitlines()[-1]
            raise EngineError(f"{name} ended with code {done.returncode}: {words[:300]}")
        return driver.read(_parsed(file))


def imported(path: Path) -> Benchmark:
    """A result of any of the tools, or a published table as CSV."""
    if path.suffix == ".csv":
        return table.read(_text(path))
    data = _parsed(path)
    for driver in DRIVERS.values():
        if driver.recognises(data):
            cells = tuple(each.cell(run=path.stem, workload="imported") for each in driver.read(data))
            return Benchmark(
                run=path.stem, title=path.stem, workload="imported", about=f"measured with {driver.name}",
                deployment=None, model=_model(data), engine=None, engine_version=None, base_url=None,
                at=cells[0].at if cells else "", seed=0, repeats=1, self_test=None, cells=cells,
            )  # fmt: skip
    raise ReadError(f"{path} is no result of {', '.join(DRIVERS)}", hint="or a table of published figures, as .csv")


def _model(data: Any) -> str:
    if isinstance(data, list):
        return str(data[0].get("model_filename", "unknown"))
    return str(data.get("model_id") or data.get("model") or "unknown")


def _parsed(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except ValueError as error:
        raise ReadError(f"{path} is not JSON: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path} cannot be read: {error}") from None

"""The Python whose Triton compiles: the engine's, a named one, or this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import EngineError, UsageError
from upright.base.host import NEUTRAL_FOLDER, with_absolute_program
from upright.engines import ENGINES, engine_named

ENV = "UPRIGHT_KERNELS_PYTHON"
HINT = f"pip install '.[kernels]' in Upright's clone, or name a Python that has Triton: --python, {ENV}"
# Guard: before 3.5 there is no seam to bind arguments without a driver, and sm_121 aborts the interpreter.
OLDEST = (3, 5)

_ASK = """
import importlib.metadata as metadata, importlib.util as util, json, sys
found = {"python": ".".join(map(str, sys.version_info[:2])), "engines": {}}
for name in %s:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        continue
    spec = util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    found["engines"][name] = [version, places[0] if places else None]
print(json.dumps(found))
"""


def inspection_script() -> str:
    """A script that prints the interpreter's version, its Triton and the engines it has."""
    packages = [engine.kernels.package for engine in ENGINES.values() if engine.kernels]
    return _ASK % repr(("triton", *packages))


@dataclass(frozen=True)
class Interpreter:
    """A Python on this machine, and what of interest is installed there."""

    program: str
    python: str
    triton: str | None
    packages: Mapping[str, tuple[str, Path]] = field(hash=False)
    """Engines' packages -> version and directory."""
    how: str
    """Why this one was taken."""

    @property
    def described(self) -> str:
        return f"Triton {self.triton} of {self.how}"

    def engine(self, name: str) -> tuple[str, Path] | None:
        known = engine_named(name).kernels
        return self.packages.get(known.package) if known else None


def interpreter(environment: str | None = None, named: str | None = None) -> Interpreter:
    """The engine's environment if it has Triton, else the named one, else UPRIGHT_KERNELS_PYTHON, else this Python."""
    tried: list[str] = []
    for program, how in _candidates(environment, named):
        candidate = look(program, how)
        if candidate.triton is None:
            tried.append(program)
        elif tuple(int(part) for part in candidate.triton.split(".")[:2]) < OLDEST:
            raise EngineError(
                f"{program} has Triton {candidate.triton}; kernels are checked with 3.5 or newer", hint=HINT
            )
        else:
            return candidate
    raise EngineError(f"no Triton in {', '.join(tried)}", hint=HINT)


def plain(environment: str | None = None) -> Interpreter:
    """As `interpreter`, for those who only look for an engine and compile nothing."""
    return look(*_candidates(environment, None)[0])


@lru_cache
def look(program: str, how: str) -> Interpreter:
    try:
        done = subprocess.run(
            with_absolute_program([program, "-c", inspection_script()]),
            cwd=NEUTRAL_FOLDER,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{program} cannot be run: {error}", hint="name the python program of an environment"
        ) from None
    if done.returncode != 0:
        raise UsageError(f"{program} is not a usable Python: {done.stderr.strip().splitlines()[-1:]}")
    answer = parse_json(done.stdout)
    engines = {name: (version, Path(place) if place else None) for name, (version, place) in answer["engines"].items()}
    located = {name: (version, place) for name, (version, place) in engines.items() if place is not None}
    triton = engines["triton"][0] if "triton" in engines else None
    return Interpreter(program, answer["python"], triton, located, how)


def _candidates(environment: str | None, named: str | None) -> list[tuple[str, str]]:
    candidates = []
    if environment is not None:
        candidates.append((program_of(environment), f"the engine's environment ({environment})"))
    if named is not None:
        return [*candidates, (program_of(named), named)]
    if from_env := os.environ.get(ENV):
        return [*candidates, (program_of(from_env), f"{ENV} ({from_env})")]
    candidates.append((sys.executable, "this Python"))
    return candidates


def program_of(environment: str) -> str:
    """The python program of an environment: a directory, or the program itself."""
    path = Path(environment)
    if path.is_dir():
        program = path / "bin" / "python"
        if not program.exists():
            raise UsageError(f"{environment} is no Python environment: it has no bin/python")
        return str(program)
    if executable := shutil.which(environment):
        return executable
    raise UsageError(f"no Python at {environment}", hint="name an environment's directory or its python program")

"""Real Triton, real wheels: both are fetched once into .cache, and nothing of them is committed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import made_by
from upright.proof.kernels import Compiler, find_source
from upright.proof.kernels.interpreter import look
from upright.proof.kernels.sources import EngineSource

ROOT = Path(__file__).parent.parent.parent
WHEELS = ROOT / ".cache/wheels"
Engine = Callable[[str, str], EngineSource]


@pytest.fixture(scope="session")
def triton_python() -> str:
    if named := os.environ.get("UPRIGHT_KERNELS_PYTHON"):
        return named
    return made_by("get-triton")


@pytest.fixture(scope="session")
def kernels_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for the session: what one test compiled, another may take from it."""
    return tmp_path_factory.mktemp("kernels-home")


@pytest.fixture(autouse=True)
def _at_home(kernels_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(kernels_home))


@pytest.fixture(scope="session")
def compiler(triton_python: str) -> Compiler:
    return Compiler(look(triton_python, "the tests"))


@pytest.fixture(scope="session")
def wheel() -> Callable[[str, str], Path]:
    """The released wheel, downloaded once."""

    def get(engine: str, version: str) -> Path:
        found = sorted(WHEELS.glob(f"{engine}-{version}-*.whl"))
        if not found:
            words = ["download", "--quiet", "--no-deps", "--dest", str(WHEELS), f"{engine}=={version}"]
            done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            found = sorted(WHEELS.glob(f"{engine}-{version}-*.whl"))
        return found[0]

    return get


@pytest.fixture
def engine(wheel: Callable[[str, str], Path]) -> Engine:
    return lambda name, version: find_source(name, source=str(wheel(name, version)))

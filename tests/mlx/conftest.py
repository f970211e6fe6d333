"""A real mlx_lm.server on a CPU: one deployment that stands for the whole session.

UPRIGHT_TEST_MLX names a virtual environment that has mlx-lm; without it scripts/get-mlx makes one in .cache/mlx.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.conftest import TINY_FOLDER, Upright
from tests.ports import free_port
from tests.programs import made_by

HERE = Path(__file__).parent
ENGINE = ("--engine", "mlx")
WORDS = (*ENGINE, "--context", "512", "--users", "4")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.engine)


@dataclass(frozen=True)
class Standing:
    """A deployment that is ready."""

    upright: Upright
    home: Path
    model: Path
    name: str
    base_url: str

    def json(self, *args: str | Path, code: int = 0) -> Any:
        return answer(self.upright(*args, "--json"), code)

    @property
    def log(self) -> str:
        return (self.home / "deployments" / self.name / "engine.log").read_text()


@pytest.fixture(scope="session")
def mlx_python() -> Path:
    return Path(os.environ.get("UPRIGHT_TEST_MLX") or made_by("get-mlx")) / "bin/python3"


@pytest.fixture(scope="session")
def mlx_model(mlx_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model") / "tiny-kimi-4bit"
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [mlx_python, HERE / "make_model.py", TINY_FOLDER, made], check=True, capture_output=True, env=offline
    )
    return made


@pytest.fixture(scope="session")
def mlx_bin(mlx_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the PATH. Kernels are not compiled: g++ takes twenty seconds for the first answer's."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "hf/hub").mkdir(parents=True)
    ours = f"HF_HOME={folder}/hf HF_HUB_OFFLINE=1 MLX_DISABLE_COMPILE=1"
    for name in ("mlx_lm.server", "python3"):
        (folder / name).write_text(f'#!/bin/sh\n{ours} exec "{mlx_python.parent / name}" "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def in_home(mlx_bin: Path) -> Callable[[Path], Upright]:
    """A home -> the command as a person there would run it, with mlx-lm on the PATH."""

    def runner(home: Path) -> Upright:
        def run(*args: str | Path, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
            ours = {"UPRIGHT_HOME": str(home), "NO_COLOR": "1", "PATH": f"{mlx_bin}:{os.environ['PATH']}"}
            return subprocess.run(
                [*command(), *map(str, args)],
                capture_output=True,
                text=True,
                timeout=timeout,
                env={**os.environ, **ours, **env},
                cwd=home.parent,
                check=False,
            )

        return run

    return runner


@pytest.fixture(scope="session")
def standing(
    in_home: Callable[[Path], Upright], mlx_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standing]:
    home = tmp_path_factory.mktemp("standing") / "home"
    upright = in_home(home)
    try:
        record = answer(upright("up", mlx_model, *WORDS, "--port", str(free_port()), "--json"))
        yield Standing(upright, home, mlx_model, record["name"], record["base_url"])
    finally:
        stop_all(upright)


@pytest.fixture
def mlx_box(in_home: Callable[[Path], Upright], tmp_path: Path) -> Iterator[Upright]:
    """A machine of one's own with mlx-lm; what the test starts is stopped after it."""
    upright = in_home(tmp_path / "home")
    yield upright
    stop_all(upright)


def answer(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def stop_all(upright: Upright) -> None:
    for item in answer(upright("ps", "--json")):
        upright("down", item["name"])

"""A real vLLM on CPU: one deployment that stands for the whole session, and a count of every start.

UPRIGHT_TEST_VLLM names a virtual environment that has vLLM; without it scripts/get-vllm makes one in .cache/vllm.
UPRIGHT_TEST_VLLM_MODEL names another checkpoint than the tiny one.
A start costs most of a minute, so all tests here that are not slow may start `vllm serve` only `MOST_STARTS` times.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.conftest import TINY_FOLDER, Upright
from tests.planted import leak_beside
from tests.ports import free_port
from tests.programs import made_by

HERE = Path(__file__).parent
MOST_STARTS = 5
CONTEXT, USERS = 1920, 4
"""Below the tiny set's shortest text, so that the walk has four lengths in the same proportions; 15 blocks of 128."""
LEAK_BYTES_PER_SECOND = 40_000_000
"""Of the child beside the standing deployment's engine, once it is told to: three times what half a minute can tell
from the 40 MB by which the engine itself goes up and down."""
_starts = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for mark in (pytest.mark.vllm, pytest.mark.engine, pytest.mark.timeout(1500)):
                item.add_marker(mark)
    items.sort(key=lambda item: (item.path == HERE / "test_restart.py", "quiet" in getattr(item, "fixturenames", ())))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if (file := config.stash.get(_starts, None)) is not None:
        terminalreporter.write_line(
            f"vLLM was started {len(started(file))} times; {MOST_STARTS} are allowed in .ci/run"
        )


@pytest.fixture
def quiet() -> None:
    """What needs a steady clock comes late, and waits for the end of the tests that run beside these in .ci/run."""
    ended = os.environ.get("UPRIGHT_TEST_QUIET_WHEN")
    while ended and not Path(ended).exists():
        time.sleep(1)


@dataclass(frozen=True)
class Standing:
    """A deployment that is ready."""

    upright: Upright
    """Runs the command in the deployment's home, with vLLM on the PATH."""
    home: Path
    model: Path
    """The checkpoint's folder."""
    name: str
    base_url: str
    """Without /v1."""
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def json(self, *args: str | Path, code: int = 0) -> Any:
        return answer(self.upright(*args, "--json"), code)


@pytest.fixture(scope="session")
def vllm_environment() -> Path:
    if named := os.environ.get("UPRIGHT_TEST_VLLM"):
        return Path(named)
    return Path(made_by("get-vllm"))


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny trained model as vLLM reads it, in a folder of its own."""
    found = os.environ.get("UPRIGHT_TEST_VLLM_MODEL", TINY_FOLDER)
    return Path(shutil.copytree(found, tmp_path_factory.mktemp("model") / "tiny-kimi"))


@pytest.fixture(scope="session")
def standing_place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The standing deployment's home and port."""
    return tmp_path_factory.mktemp("standing") / "home", free_port()


@pytest.fixture(scope="session")
def vllm_bin(
    vllm_environment: Path,
    standing_place: tuple[Path, int],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Path]:
    """A folder for the PATH whose `vllm` writes down that it was asked to serve, and then is the real one."""
    folder = tmp_path_factory.mktemp("bin")
    starts = folder / "starts"
    starts.touch()
    request.config.stash[_starts] = starts
    real = vllm_environment / "bin"
    note = f'[ "$1" = serve ] && echo "$2" >>"{starts}"\n'
    home, port = standing_place
    note += f'case "$* " in "serve "*" --port {port} "*)\n{leak_beside(home, LEAK_BYTES_PER_SECOND)};; esac\n'
    for name, first in (("vllm", note), ("python3", "")):
        (folder / name).write_text(f'#!/bin/sh\n{first}exec "{real / name}" "$@"\n')
        (folder / name).chmod(0o755)
    yield folder
    if not any(item.get_closest_marker("slow") for item in request.session.items):
        assert len(started(starts)) <= MOST_STARTS, f"vLLM was started too often: {started(starts)}"


def started(file: Path) -> list[str]:
    return file.read_text().splitlines()


@pytest.fixture(scope="session")
def in_home(vllm_bin: Path) -> Callable[[Path], Upright]:
    """A home -> the command as a person there would run it, with vLLM on the PATH."""

    def runner(home: Path) -> Upright:
        def run(*args: str | Path, timeout: float = 600, **env: str) -> subprocess.CompletedProcess[str]:
            ours = {"UPRIGHT_HOME": str(home), "NO_COLOR": "1", "PATH": f"{vllm_bin}:{os.environ['PATH']}"}
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


@pytest.fixture
def vllm_box(in_home: Callable[[Path], Upright], tmp_path: Path) -> Iterator[Upright]:
    """A machine of one's own with vLLM; what the test starts is stopped after it."""
    upright = in_home(tmp_path / "home")
    yield upright
    stop_all(upright)


@pytest.fixture(scope="session")
def standing(
    in_home: Callable[[Path], Upright], tiny_checkpoint: Path, standing_place: tuple[Path, int]
) -> Iterator[Standing]:
    """The deployment that every test may ask; whoever restarts it leaves it as it was, but for test_restart.py, the
    last."""
    home, port = standing_place
    upright = in_home(home)
    know_the_model(home)
    words = ("--context", str(CONTEXT), "--users", str(USERS), "--port", str(port))
    try:
        record = answer(upright("up", tiny_checkpoint, *words, "--json"))
        key = (home / "deployments" / record["name"] / "key").read_text().strip()
        yield Standing(upright, home, tiny_checkpoint, record["name"], record["base_url"], key)
    finally:
        stop_all(upright)


def know_the_model(home: Path) -> None:
    """A row of one's own, as a person writes it: vLLM calls no tool without being told the parser."""
    fact = {"value": None, "grade": "D", "source": "trained for these tests"}
    artifact = {"repository": "tiny/tiny-kimi", "format": "safetensors", "scheme": "bf16", "engines": ["vllm"]}
    row = {
        "id": "tiny-kimi",
        "name": "tiny-kimi",
        "repository": "tiny/tiny-kimi",
        "maker": "these tests",
        "released": "2026",
        "about": "A small model of the Kimi architecture.",
        "parameters": fact,
        "active_parameters": fact,
        "shape": None,
        "artifacts": [{**artifact, "size_bytes": fact}],
        "parsers": {"vllm": {"tool": "kimi_k2"}},
        "licence": {"name": "Apache-2.0", "source": "LICENSE"},
        "grade": "D",
        "sources": ["trained for these tests"],
    }
    file = home / "catalog/models/tiny-kimi.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(row))  # JSON is YAML


def answer(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def stop_all(upright: Upright) -> None:
    for item in answer(upright("ps", "--json")):
        upright("down", item["name"])

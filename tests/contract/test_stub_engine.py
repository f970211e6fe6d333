"""An engine in a package of its own: installed as any package is, then planned, rendered, checked, started, benched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY_MODEL
from tests.ports import free_port

pytestmark = pytest.mark.engine
PACKAGE = ROOT / "tests/assets/stub-engine"


class Person:
    """Types `upright` where the package is installed; a traceback is always a failure."""

    def __init__(self, installed: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(installed),
            "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
            "UPRIGHT_HOME": str(folder / "home"),
            "NO_COLOR": "1",
        }

    def __call__(self, *words: object, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "upright", *map(str, words)],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        talk = f"upright {' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in talk
        assert done.returncode == code, talk
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By pip, from a wheel that it builds."""
    place = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--no-index", "--target", str(place), str(PACKAGE)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return place


@pytest.fixture
def person(installed: Path, tmp_path: Path) -> Iterator[Person]:
    person = Person(installed, tmp_path)
    yield person
    if (tmp_path / "home/deployments").exists():
        person("down", "tiny-kimi")


def test_from_plan_to_bench(person: Person):
    asked = (TINY_MODEL, "--engine", "stub", "--context", "4096")
    plan = json.loads(person("plan", *asked, "--json").partition("next:")[0])["plans"][0]
    assert (plan["engine"], plan["engine_version"], plan["fits"], plan["speed"]) == ("stub", "7", True, None)
    assert "it makes no context on any GPU" in person("plan", *asked, "--why", "--box", "1x-rtx-5090")
    assert "--context 4096" in person("render", *asked, "--to", "shell")
    assert "accepted, by" in person("check", *asked)
    assert "tiny-kimi is ready" in person("up", *asked, "--port", free_port())
    assert "nothing failed in tiny-kimi" in person("diagnose", "tiny-kimi")
    assert "uses what was measured of process" in person("residuals", "tiny-kimi")
    load = ("--workload", "short", "--concurrency", "1", "--requests", "2")
    assert "tok/s" in person("bench", "tiny-kimi", *load)
    assert "the package upright_stub_engine brings" in " ".join(person("explain", "stub").split())


def test_what_it_refuses_and_why_it_falls_are_told(person: Person):
    long = (TINY_MODEL, "--engine", "stub", "--context", "8704")
    recipe = json.loads(person("render", *long, "--json").partition("next:")[0].partition("\nnote:")[0])
    recipe.pop("digest", None)
    recipe["arguments"].append({"name": "--contexts", "value": "1", "reason": "a slip"})
    (person.folder / "wrong.yaml").write_text(json.dumps(recipe))
    assert "--contexts" in person("check", "wrong.yaml", code=1)
    recipe["arguments"].pop()
    recipe["arguments"][3]["value"] = "2000000"
    (person.folder / "long.yaml").write_text(json.dumps(recipe))
    person("up", "long.yaml", code=2)
    assert "E4711" in person("diagnose", "tiny-kimi", code=1)

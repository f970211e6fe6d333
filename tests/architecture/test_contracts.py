"""The house plan is enforced: a wrong import, an unplaced room and a heavy import each fail the build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the sources that a test may spoil."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(house: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_house_as_it_stands_keeps_its_contracts(house: Path):
    done = lint_imports(house)
    assert done.returncode == 0, done.stdout


def test_an_import_upwards_fails(house: Path):
    with (house / "src/upright/planning/choosing/__init__.py").open("a") as file:
        file.write("\nimport upright.serving.launch\n")
    done = lint_imports(house)
    assert done.returncode != 0
    assert "upright.planning is not allowed to import upright.serving" in done.stdout


def test_an_impure_engine_fails(house: Path):
    with (house / "src/upright/engines/llamacpp/flags.py").open("a") as file:
        file.write("\nimport subprocess\n")
    done = lint_imports(house)
    assert done.returncode != 0
    assert "upright.engines is not allowed to import subprocess" in done.stdout


def test_an_unplaced_room_fails(house: Path):
    (house / "src/upright/attic").mkdir()
    (house / "src/upright/attic/__init__.py").write_text("")
    done = lint_imports(house)
    assert done.returncode != 0
    assert "attic" in done.stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_loads_nothing_heavy(words: list[str]):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "upright", *words], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not loaded & {"pydantic", "rich", "httpx2", "yaml", "jinja2", "huggingface_hub", "asyncio"}

"""A failing test of .ci/run -> asked once more by itself, and named if it stands then; never forgiven twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

TESTS = """\
import pathlib
import pytest

@pytest.mark.parametrize("number", range(5))
def test_number(number):
    life = pathlib.Path(f"lives-{number}")
    left = int(life.read_text()) if life.exists() else 0
    life.write_text(str(left - 1))
    assert left <= 0, "this test fails as often as it was told to"
"""
STAGES = """\
set -euo pipefail
. "$1/.ci/stages"
tests "numbers" .venv/bin/pytest -q
verdict
"""


def ran(folder: Path, failures: dict[int, int]) -> subprocess.CompletedProcess[str]:
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "test_numbers.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number, times in failures.items():
        (folder / f"lives-{number}").write_text(str(times))
    words = ["bash", "-c", STAGES, "stages", str(ROOT)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_what_stands_has_nothing_said_of_it(tmp_path: Path) -> None:
    done = ran(tmp_path, {})
    assert (done.returncode, "UNSTEADY" in done.stdout) == (0, False), done.stdout


def test_what_stands_by_itself_is_named(tmp_path: Path) -> None:
    done = ran(tmp_path, {1: 1, 3: 1})
    assert done.returncode == 0, done.stdout
    assert "2 failed, 3 passed" in done.stdout
    assert "2 passed" in done.stdout
    named = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("== UNSTEADY")]
    assert named == ["test_numbers.py::test_number[1]", "test_numbers.py::test_number[3]"]


@pytest.mark.parametrize("failures", [{1: 2}, {0: 1, 1: 1, 2: 1, 3: 1}], ids=["twice", "too many"])
def test_what_does_not_stand_fails(tmp_path: Path, failures: dict[int, int]) -> None:
    done = ran(tmp_path, failures)
    assert (done.returncode, "== FAILED: numbers" in done.stdout) == (1, True), done.stdout
    assert ("by itself" in done.stdout) is (len(failures) == 1)

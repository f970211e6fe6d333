"""Stages of .ci/run -> a verdict: what fails is said at the end, is asked once, and hides nothing after it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import ROOT
from upright.serving.launch.processes import identify

TESTS = """\
import pathlib

def test_whose_life_is_counted():
    life = pathlib.Path("lives")
    life.write_text(life.read_text() + "x" if life.exists() else "x")
    assert life.read_text() != "x", "this test fails once and stands ever after"
"""


def ran(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", f'set -euo pipefail\n. "$1/.ci/stages"\n{script}\nverdict', "stages", str(ROOT)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_what_stands_has_its_seconds_said_and_nothing_else(tmp_path: Path) -> None:
    done = ran(tmp_path, 'stage "one" true\nbegin "two" echo beside\ntests "three" true\nfinish "two"')
    assert done.returncode == 0, done.stdout
    assert [line for line in re.sub(r"\d+ s", "N s", done.stdout).splitlines() if line] == [
        "== one", "== one: N s (N s in all)", "== three", "== three: N s (N s in all)",
        "== two", "beside", "== two: N s (N s in all)",
    ]  # fmt: skip


def test_a_test_that_fails_once_has_failed(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "test_life.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = ran(tmp_path, 'tests "lives" .venv/bin/pytest -q\nstage "after" echo here')
    assert done.returncode == 1
    assert (tmp_path / "lives").read_text() == "x", "nothing is asked twice"
    assert done.stdout.splitlines()[-1] == "== FAILED: lives"
    assert "\nhere\n" in done.stdout, "it hides nothing"


def test_a_stage_that_fails_ends_the_run_and_what_was_begun(tmp_path: Path) -> None:
    begun = """begin "long" sh -c 'echo $$ >pid.new; mv pid.new pid; sleep 60'"""
    fails = """stage "short" sh -c 'until [ -e pid ]; do sleep 0.02; done; exit 1'"""
    done = ran(tmp_path, f'{begun}\n{fails}\nstage "after" echo here')
    assert done.returncode == 1
    assert "== short FAILED after " in done.stdout
    assert "here" not in done.stdout
    pid, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + 20
    while identify(pid) is not None:
        assert time.monotonic() < deadline, "nothing is left behind"
        time.sleep(0.05)


def test_what_was_begun_and_failed(tmp_path: Path) -> None:
    ended = ran(tmp_path, 'begin "install" sh -c "echo no; exit 3"\nfinish "install"\nstage "after" echo here')
    assert (ended.returncode, "\nno\n" in ended.stdout, "here" in ended.stdout) == (1, True, False)
    went_on = ran(tmp_path, 'begin "some tests" false\nstage "after" echo here\nfinish_tests "some tests"')
    assert (went_on.returncode, "here" in went_on.stdout) == (1, True)
    assert went_on.stdout.splitlines()[-1] == "== FAILED: some tests"

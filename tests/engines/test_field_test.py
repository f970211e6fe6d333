"""A field test on the real llama-server, killed at random moments: one bundle, nothing twice, no engine left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from upright.facts.records.base import from_json
from upright.facts.records.first_hour import FieldBundle

pytestmark = [pytest.mark.engine, pytest.mark.slow]
KILLS = 10


@pytest.mark.timeout(1500)
def test_killed_ten_times_it_comes_to_its_end(llama_server: Path, tiny_model: Path, tmp_path: Path) -> None:
    home, bundle, chance = tmp_path / "home", tmp_path / "field.bundle.json", random.Random(32)
    environment = {**os.environ, "UPRIGHT_HOME": str(home), "PATH": f"{llama_server.parent}:{os.environ['PATH']}"}

    def start(*options: str) -> subprocess.Popen[str]:
        words = ["field-test", "--write", str(bundle), "--json", *options]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*command(), *words], env=environment, cwd=tmp_path, text=True, stdout=pipe, stderr=pipe
        )

    first = ("--model", str(tiny_model), "--budget", "600s", "--yes")
    running, kills = start(*first), 0
    folder = home / "field-tests/field-test-1/field-test.json"
    ended: list[str] = []
    while kills < KILLS:
        try:
            _, talk = running.communicate(timeout=chance.uniform(1.5, 5))
            pytest.fail(f"it ended after {kills} kills: {talk}")
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.communicate()
            kills += 1
        if folder.exists():
            before, ended = ended, [outcome["step"] for outcome in json.loads(folder.read_text())["outcomes"]]
            assert ended[: len(before)] == before, "what ended stays ended"
            running = start("--resume", "--budget", "30m")
        else:
            running = start(*first)
    told, talk = running.communicate(timeout=600)
    assert running.returncode in (0, 1), talk
    test = json.loads(told)
    assert 0 < test["interruptions"] <= KILLS, "a kill before the first step, or between two, cut nothing off"
    comes_to_its_end(test, environment, bundle)


def comes_to_its_end(test: dict[str, Any], environment: dict[str, str], bundle: Path) -> None:
    """Each step once and done, one folder, one bundle, no engine left, and rows for the catalogue."""
    home = Path(environment["UPRIGHT_HOME"])
    names = [outcome["step"] for outcome in test["outcomes"]]
    assert sorted(names) == sorted({step["name"] for step in test["steps"]}), "each step once"
    assert {outcome["ending"] for outcome in test["outcomes"]} == {"done"}, test["outcomes"]
    assert [path.name for path in bundle.parent.glob("*bundle*")] == [bundle.name]
    assert len(from_json(FieldBundle, bundle.read_bytes()).statements) == 1
    assert [path.name for path in (home / "field-tests").iterdir()] == ["field-test-1"]
    listed = subprocess.run([*command(), "ps", "--json"], env=environment, capture_output=True, text=True, check=True)
    assert {deployment["state"] for deployment in json.loads(listed.stdout)} == {"stopped"}
    engines = subprocess.run(["pgrep", "-f", str(home)], capture_output=True, text=True, check=False)
    assert engines.stdout == "", "no engine and no supervisor is left"
    rows = subprocess.run(
        [*command(), "field-test", "--rows", str(bundle)], env=environment, capture_output=True, text=True, check=False
    )
    assert "+++ b/src/upright/facts/catalog/measurements/field.csv" in rows.stdout, rows.stderr

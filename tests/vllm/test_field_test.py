"""A field test on a real vLLM: killed while it starts, while it is proved, and with its engine while it is measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.engines.test_field_test import comes_to_its_end
from tests.vllm.conftest import know_the_model

pytestmark = pytest.mark.slow
KILLS = {"start": 8.0, "prove": 5.0, "bench": 1.5}
"""Step -> how many seconds it is under way before it is cut off."""


@pytest.mark.timeout(1500)
def test_killed_in_every_step_of_an_engine_it_comes_to_its_end(
    vllm_bin: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    home, bundle = tmp_path / "home", tmp_path / "field.bundle.json"
    know_the_model(home)
    path = f"{vllm_bin}:{os.environ['PATH']}"
    environment = {**os.environ, "UPRIGHT_HOME": str(home), "PATH": path, "COLUMNS": "80", "NO_COLOR": "1"}

    def start(*options: str) -> subprocess.Popen[str]:
        argv = [*command(), "field-test", "--write", str(bundle), "--json", *options]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=environment, cwd=tmp_path, text=True, stdout=pipe, stderr=pipe)

    running = start("--model", str(tiny_checkpoint), "--budget", "30m", "--yes")
    for action in KILLS:
        name = wait_for_step(running, home, action)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        if action == "bench":  # as a reboot does: the kernel ends the engine with its supervisor
            end_the_supervisor(home, name)
        running = start("--resume", "--budget", "60m")
    told, talk = running.communicate(timeout=900)
    assert running.returncode in (0, 1), talk
    test = json.loads(told)
    assert test["interruptions"] == len(KILLS)
    comes_to_its_end(test, environment, bundle)
    page = (home / "field-tests/field-test-1/what-was-wrong.txt").read_text()
    assert page.startswith("What Upright was wrong about\n4 of 4 steps done in ")
    assert "3 times cut off" in page
    assert "KV cache: " in page
    print(page)


def wait_for_step(running: subprocess.Popen[str], home: Path, action: str) -> str:
    """Until the test is well inside that step; the deployment's name."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if running.poll() is not None:
            pytest.fail(f"it ended before {action}: {running.communicate()}")
        under_way = record(home).get("under_way")
        if under_way and under_way["step"].startswith(action):
            time.sleep(KILLS[action])
            outcomes = [outcome["deployment"] for outcome in record(home)["outcomes"]]
            return str((record(home).get("under_way") or {}).get("deployment") or outcomes[-1])
        time.sleep(0.2)
    pytest.fail(f"{action} is not begun")


def record(home: Path) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads((home / "field-tests/field-test-1/field-test.json").read_text())
    except OSError:
        return {}
    return read


def end_the_supervisor(home: Path, name: str) -> None:
    deployment = json.loads((home / "deployments" / name / "deployment.json").read_text())
    os.kill(deployment["supervisor"]["pid"], signal.SIGKILL)

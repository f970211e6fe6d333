"""A command that is killed at a random moment, as people type it: `ps` comes to say how it is, `down` ends it, nothing
is left, and nothing rises by itself.

Supervisors, engines and launchers are killed in test_launch_kill.py, long climbs in test_climb_kill.py, `field-test`
and `fleet roll` on real engines in tests/engines.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY_DRAFT, TINY_MODEL
from tests.engines.test_line import left_running
from tests.faults.test_budgets import claim  # noqa: F401
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(300)]

SEED = 20261119
TRIALS = 12
SETTLED_WITHIN_SECONDS = 30.0
RISES_WITHIN_SECONDS = 3.0
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CELLS = "--prompt-tokens 64 --output-tokens 16 --requests 4 --repeats 1 --no-self-test"
COMMANDS = {
    "up": ("up {model} --context 1k --port {port}", 5.0),
    "down": ("down", 1.5),
    "restart": ("restart", 3.0),
    "prove": ("prove --to tools", 6.0),
    "speculate": ("prove --only smoke --speculate draft={draft} --cells 128x1", 12.0),
    "bench": (f"bench --workload short --concurrency 1,2 {CELLS}", 6.0),
    "replay": ("replay {claim} --model {model} --port {port} --yes --budget 30s", 15.0),
}
"""What is typed, and within how many seconds of it the kill falls."""
STARTS_BY_ITSELF = ("up", "replay")


class OwnBox:
    """A home of its own, and the real llama-server."""

    def __init__(self, folder: Path, llama_server: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ, "UPRIGHT_HOME": str(folder / "home"), "UPRIGHT_LLAMA_SERVER": str(llama_server),
            "NO_COLOR": "1",
        }  # fmt: skip

    def begin(self, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "upright", *words], env=self.environment, cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def did(self, *words: str) -> str:
        process = self.begin([*words])
        told, why = process.communicate(timeout=120)
        assert process.returncode == 0, f"{words}: {told}{why}"
        return told

    def deployments(self) -> list[dict[str, Any]]:
        return list(json.loads(self.did("ps", "--json")))


@pytest.mark.parametrize("trial", range(TRIALS))
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_killed_command_leaves_the_truth(
    verb: str,
    trial: int,
    llama_server: Path,
    claim: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    typed, seconds = COMMANDS[verb]
    chance = random.Random(f"{SEED} {verb} {trial}")
    box, port = OwnBox(tmp_path, llama_server), str(free_port())
    if verb not in STARTS_BY_ITSELF:
        box.did("up", str(TINY_MODEL), "--context", "1k", "--port", port)
    running = box.begin(typed.format(model=TINY_MODEL, draft=TINY_DRAFT, claim=claim, port=port).split())
    moment, sign = chance.uniform(0, seconds), SIGNALS[trial % len(SIGNALS)]
    time.sleep(moment)
    running.send_signal(sign)
    _, said = running.communicate(timeout=60)
    assert "/upright/app/" not in said, "a traceback of ours; one before our first line is Python's own"
    seen = settled(box)
    print(f"{verb}: {sign.name} after {moment:.2f} s, exit {running.returncode}; then {seen}")
    if verb == "down" and running.returncode == 0:
        assert seen == ["stopped"]
    for deployment in box.deployments():
        box.did("down", deployment["name"])
    time.sleep(RISES_WITHIN_SECONDS)
    assert {deployment["state"] for deployment in box.deployments()} <= {"stopped", "failed", "planned"}
    assert left_running(tmp_path) == []


def settled(box: OwnBox) -> list[str]:
    """The states of all, once no engine is up of which `ps` says that it is not, or the other way."""
    deadline = time.monotonic() + SETTLED_WITHIN_SECONDS
    while True:
        states = [deployment["state"] for deployment in box.deployments()]
        engines = len(
            [words for words in left_running(box.folder) if str(TINY_MODEL) in words.split("llama-server")[-1]]
        )
        ups = sum(state in ("ready", "degraded") for state in states)
        if set(states) <= {"ready", "stopped", "failed", "planned"} and bool(engines) == bool(ups):
            return states
        assert time.monotonic() < deadline, f"{states}, and engines: {left_running(box.folder)}"
        time.sleep(0.3)

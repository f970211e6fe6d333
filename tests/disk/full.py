"""A real engine on a small disk of its own that is filled while it serves; run in a mount namespace.

    python -m tests.disk.full FOLDER MODEL

Prints a line of JSON: what `ps` said at each turn, and whether the engine answered.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.ports import free_port
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.launch import status, stop
from upright.serving.launch.processes import alive


def main(folder: Path, model: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], check=True)
    os.environ["UPRIGHT_HOME"] = str(folder / "home")
    up = [sys.executable, "-m", "upright", "up", model, "--port", str(free_port()), "--restarts", "9"]
    subprocess.run(up, check=True, stdout=sys.stderr)
    directory = store.find(None)
    try:
        print(json.dumps(_life(directory, folder)))
    finally:
        stop(directory)


def _life(directory: DeploymentDir, folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = {}
    reserve = directory.path / ".reserve"
    first = status(directory)
    _fill(folder)
    told["served on a full disk"] = _crashed_and_served(first)
    time.sleep(2)
    told["ps on a full disk"] = _ps()
    _fill(folder)
    reserve.unlink(missing_ok=True)
    _fill(folder)
    told["served without a reserve"] = _crashed_and_served(status(directory))
    time.sleep(2)
    told["ps without a reserve"] = _ps()
    told["its supervisor goes on"] = alive(first.supervisor)
    (folder / "filler").unlink()
    time.sleep(3)
    told["ps with room again"] = _ps()
    _fill(folder)
    reserve.unlink(missing_ok=True)
    _fill(folder)
    ended = stop(directory)
    told["down on a full disk"] = [ended.state, ended.reason]
    told["served after down"] = _answers(first.base_url)
    (folder / "filler").unlink()
    told["ps after down"] = _ps()
    return told


def _crashed_and_served(before: Deployment) -> bool:
    """Its engine is killed, and another answers."""
    assert before.process is not None
    os.kill(before.process.pid, signal.SIGKILL)
    while alive(before.process):
        time.sleep(0.02)
    deadline = time.monotonic() + 60
    while not (served := _answers(before.base_url)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return served


def _answers(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base_url}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _fill(folder: Path) -> None:
    with (folder / "filler").open("ab", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


def _ps() -> list[Any]:
    argv = [sys.executable, "-m", "upright", "ps", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout) if done.stdout else [{"state": None, "reason": done.stderr}]
    return [done.returncode, rows[0]["state"], rows[0].get("reason")]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

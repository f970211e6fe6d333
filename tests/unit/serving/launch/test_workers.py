"""The numbers of an engine's processes are known after its death."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from upright.facts.store import DeploymentDir
from upright.serving.launch.processes import leader, members
from upright.serving.launch.workers import WorkerRecorder, recorded_workers


def test_every_process_of_the_group_is_known_after_its_death(tmp_path: Path):
    directory = DeploymentDir(tmp_path)
    engine = subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600"], start_new_session=True)
    try:
        led_by = leader(engine.pid)
        deadline = time.monotonic() + 60
        while len(members(led_by)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        alive = set(members(led_by))
        WorkerRecorder(directory).look(led_by)
    finally:
        os.killpg(engine.pid, signal.SIGKILL)
        engine.wait()
    assert len(alive) == 3
    assert set(recorded_workers(directory)) == alive


def test_a_file_that_somebody_wrote_is_read_with_care(tmp_path: Path):
    directory = DeploymentDir(tmp_path)
    assert recorded_workers(directory) == ()
    (tmp_path / "processes").write_bytes(b"12\nmoon\n-3\n99999999999999999999\n\xff 34")
    assert recorded_workers(directory) == (12, 34)

"""What an engine and its machine hold: the question on this machine, and its answer as text."""

from __future__ import annotations

import os
import subprocess
import sys

from upright.facts.records.deployment import Deployment
from upright.serving.launch.footprint import FootprintMeter, read_footprint
from upright.serving.launch.processes import leader

SAID = """engine 3 2048 150
MemAvailable:   1000 kB
AnonPages:      3000 kB
Shmem:            10 kB
SUnreclaim:       20 kB
KernelStack:       3 kB
PageTables:        7 kB
cpu  100 20 30 999 888 5 6 7 0 0
ticks 100
processors 2
"""
HOLD = "held = bytearray(b'x' * 2**26); print('ready', flush=True); input()"


def deployment(pid: int) -> Deployment:
    return Deployment(
        made_from=(), name="x", state="ready", engine="llama.cpp", engine_version=None, served_name="x",
        base_url="http://127.0.0.1:1", context_tokens=1, process=leader(pid), created_at="", changed_at="",
    )  # fmt: skip


def test_the_answer_is_read():
    found = read_footprint(SAID)
    assert found is not None
    assert (found.processes, found.engine_bytes, found.engine_seconds) == (3, 2048 * 1024, 1.5)
    assert (found.kernel_bytes, found.others_bytes, found.available_bytes) == (40 * 1024, 952 * 1024, 1000 * 1024)
    assert (found.busy_seconds, found.processors) == (1.68, 2)


def test_what_is_not_there_is_not_invented():
    assert read_footprint(SAID.replace("engine 3", "engine 0")) is None
    assert read_footprint(SAID.replace("AnonPages", "Anon")) is None
    assert read_footprint("engine 3\n") is None
    assert read_footprint("") is None


def test_a_group_and_the_children_that_left_it_are_counted():
    worker = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}], start_new_session=True)"
    with subprocess.Popen(
        [sys.executable, "-c", worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        meter = FootprintMeter(deployment(engine.pid))
        found = meter.read()
        assert found is not None
        assert found.processes == 2
        assert 2**26 < found.engine_bytes < 2**27
        assert found.available_bytes > 0
        assert found.processors == os.cpu_count()
        engine.communicate(b"\n")
        assert meter.read() is None

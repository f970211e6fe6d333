"""Ending an engine ends its workers, and never a stranger."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from upright.facts.records.deployment import Process
from upright.serving.launch.processes import alive, end_group, identify, leader, members, send

STUBBORN = "(trap '' TERM; sleep 300) & (trap '' TERM; sleep 300) & echo; "


def group(script: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(["bash", "-c", script], start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()  # its workers are there
    child.stdout.close()
    return child


def test_workers_that_ignore_the_polite_signal_are_ended():
    child = group(STUBBORN + "exec sleep 300")
    process = leader(child.pid)
    assert len(members(process)) >= 3
    end_group(process, patience_seconds=0.5)
    assert members(process) == []
    child.wait()


def test_workers_of_a_leader_that_is_gone_are_ended():
    child = group(STUBBORN + "exit 7")
    process = leader(child.pid)
    assert child.wait() == 7
    assert not alive(process)
    assert members(process)
    end_group(process, patience_seconds=0.5)
    assert members(process) == []


def test_a_stranger_with_the_same_number_is_left_alone():
    child = group("echo; exec sleep 300")
    process = leader(child.pid)
    other_start = process.model_copy(update={"started_ticks": process.started_ticks - 1})
    other_boot = process.model_copy(update={"boot_id": "another"})
    for stranger in (other_start, other_boot):
        assert not alive(stranger)
        send(stranger, signal.SIGKILL)
        end_group(stranger, patience_seconds=0.1)
    time.sleep(0.1)
    assert alive(process)
    end_group(process)
    child.wait()


def test_nobody_is_there():
    child = subprocess.Popen(["true"])
    child.wait()
    assert identify(child.pid) is None
    assert not alive(None)
    send(Process(pid=child.pid, started_ticks=1), signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)

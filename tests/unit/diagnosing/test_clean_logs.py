"""No alarm on logs of real engines that worked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from upright.diagnosing import diagnose_file

LOGS = sorted(
    [*(ROOT / "tests/recordings/logs/clean").glob("*.log"), *(ROOT / "tests/recordings/logs/healthy").glob("*.log")]
)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_run_that_worked_is_no_failure(log: Path):
    found = diagnose_file(log)
    assert not found.failed, found.excerpt
    assert found.row is None
    assert {each.severity for each in found.findings} <= {"information", "slow"}
    whole = log.parent.name == "clean" or "llama" in log.stem  # the others are single lines
    assert found.stood is (True if whole else found.stood)
    assert found.engine == (log.stem if log.parent.name == "healthy" else _engine(log))


def _engine(log: Path) -> str:
    return log.stem.partition("-")[0].replace("llama", "llama.cpp")


def test_there_are_enough_of_them():
    assert len(LOGS) >= 20
    assert {log.stem.partition("-")[0] for log in LOGS} >= {"llama", "vllm", "sglang", "ik_llama.cpp"}

"""No alarm on logs of real engines that worked."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from upright import catalog
from upright.diagnosing import Around, diagnose, diagnose_file

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


def test_a_row_that_is_offered_claims_no_healthy_line():
    """Whatever the last words of a run that failed: a row of them must not call healthy logs a failure."""
    healthy = [line for log in LOGS for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for line in dict.fromkeys(healthy):
        row = diagnose(io.BytesIO(f"{line}\n".encode()), subject="x", around=Around(failed=True)).row
        assert row is None, line
    complaint = "ValueError: 17 moons are not aligned"
    row = diagnose(io.BytesIO(f"{complaint}\n".encode()), subject="x", around=Around(failed=True)).row
    assert row is not None
    assert re.search(yaml.safe_load(row)[0]["pattern"], complaint)


def test_the_package_knows_a_line_of_each_kind_that_healthy_engines_print():
    known = {re.sub(r"\d", "", line).strip() for line in catalog.healthy_lines()}
    printed = {re.sub(r"\d", "", line).strip() for log in LOGS for line in log.read_text(errors="replace").splitlines()}
    short = {line for line in printed if 0 < len(line) <= 300}
    assert short <= known

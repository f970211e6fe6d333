"""No alarm on logs of real engines that worked."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from upright.facts import catalog
from upright.serving.diagnose import LogContext, diagnose, diagnose_file

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


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_code_that_warned_is_no_half_of_the_line_after_it(log: Path):
    """Python prints the line of code behind a warning, without a beginning of its own; what follows is another's."""
    code = '  wrapper = lookup(vars(value).get("kernel"))'
    text = "\n".join(f"{code}\n{line}" for line in log.read_text(errors="replace").splitlines())
    assert not diagnose(io.BytesIO(text.encode()), subject="x").failed


def test_processes_with_a_number_and_torchs_own_lines_have_a_beginning():
    text = """\
(APIServer pid=100) INFO 11-17 21:35:59 [utils.py:325] version 0.32.0
module.py:12: UserWarning: there is no kernel
  wrapper = lookup(vars(value).get("kernel"))
[W1117 21:36:04.060152498 utils.cpp:68] Warning: NUMA binding: memory is bound to these nodes (0).
(VllmWorker-0 pid=29710) WARNING 11-17 21:36:04 [vllm.py:725] Model Runner V2 requires Triton; using the V1 model runner instead.
(APIServer pid=100) INFO 11-17 21:36:20 [launcher.py:38] Application startup complete.
"""  # noqa: E501
    assert not diagnose(io.BytesIO(text.encode()), subject="x").failed


def _engine(log: Path) -> str:
    return log.stem.partition("-")[0].replace("llama", "llama.cpp")


def test_there_are_enough_of_them():
    assert len(LOGS) >= 20
    assert {log.stem.partition("-")[0] for log in LOGS} >= {"llama", "vllm", "sglang", "ik_llama.cpp"}


def test_a_row_that_is_offered_claims_no_healthy_line():
    """Whatever the last words of a run that failed: a row of them must not call healthy logs a failure."""
    healthy = [line for log in LOGS for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for line in dict.fromkeys(healthy):
        row = diagnose(io.BytesIO(f"{line}\n".encode()), subject="x", around=LogContext(failed=True)).row
        assert row is None, line
    complaint = "ValueError: 17 moons are not aligned"
    row = diagnose(io.BytesIO(f"{complaint}\n".encode()), subject="x", around=LogContext(failed=True)).row
    assert row is not None
    assert re.search(yaml.safe_load(row)[0]["pattern"], complaint)


def test_the_package_knows_a_line_of_each_kind_that_healthy_engines_print():
    known = {re.sub(r"\d", "", line).strip() for line in catalog.healthy_lines()}
    printed = {re.sub(r"\d", "", line).strip() for log in LOGS for line in log.read_text(errors="replace").splitlines()}
    short = {line for line in printed if 0 < len(line) <= 300}
    assert short <= known

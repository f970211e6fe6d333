"""The page of residuals, and of a log alone, at 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.unit.planning.test_learning import started, vllm_log, vllm_plan
from upright.app.cli.residuals import command
from upright.app.pages.residuals_page import learned_terms, residuals_page
from upright.base.terminal.safe_output import uncoloured
from upright.serving.diagnose import diagnose_file

LOGS = Path(__file__).parents[3] / "recordings/logs/memory"
PAGE = """\
first: what was planned, and what the engine took
vllm 0.32.0 on box, read 2026-11-15 10:00 UTC

                 predicted    measured  difference
gpu0 to gpu7, each of 8
  weights         64.1 GiB    64.1 GiB    +901 KiB  in the band
  kv_cache        17.9 GiB    10.8 GiB   -7.10 GiB  outside the band
  graphs           721 MiB    1.20 GiB    +507 MiB  in the band
  runtime         2.80 GiB    9.40 GiB   +6.60 GiB  outside the band
host
  process         3.00 GiB           -
    the engine does not say
cache, tokens      272,880     164,454    -108,426

The next plan for this box with vllm 0.32.0 uses what was measured of runtime,
graphs."""


def test_eight_gpus_on_one_page():

    first = vllm_plan(engine_version="0.32.0", users=2)
    found = started(first, vllm_log(first, runtime_gib=9.4, graphs_gib=1.2))
    assert uncoloured(residuals_page(found, 80)) == PAGE
    assert learned_terms(found) == ("runtime", "graphs")


def test_a_long_name_leaves_no_line_too_long():
    found = started(vllm_plan(engine_version="0.32.0"), "nothing").model_copy(
        update={"deployment": "kimi-k2.6-on-the-box-in-the-corner-20261115-101112", "box": "8x-rtx-pro-6000-" * 4}
    )
    assert max(map(len, residuals_page(found, 80).splitlines())) <= 80


def test_devices_that_differ_are_told_apart():
    first = vllm_plan()
    log = vllm_log(first, runtime_gib=3.4).replace(
        "(Worker_TP7 pid=107) INFO [gpu_model_runner.py:1] Model loading took", "x"
    )
    page = residuals_page(started(first, log), 80)
    assert "gpu0 to gpu6, each of 7" in page
    assert "\ngpu7\n" in page


def test_nothing_that_a_plan_could_use():
    found = started(vllm_plan(), "nothing", unread=("the log says nothing",))
    page = residuals_page(found, 80)
    assert "not read: the log says nothing" in page
    assert page.endswith("Nothing was measured that a plan could use.")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ik_llama.cpp"])
def test_a_log_that_somebody_sent(engine: str, tmp_path: Path):
    excerpt = max(yaml.safe_load((LOGS / f"{engine}.yaml").read_text()), key=lambda found: len(found["reads"]))
    (tmp_path / "sent.log").write_text(excerpt["log"])
    done = CliRunner().invoke(command, ["--log", str(tmp_path / "sent.log"), "--engine", engine])
    assert done.exit_code == 0, done.output
    assert f"what {engine} says about its memory" in " ".join(done.stdout.split())
    assert all(name.split()[0] in done.stdout for name in excerpt["reads"])
    assert max(len(line) for line in done.stdout.splitlines() if "sent.log" not in line) <= 80
    guessed = CliRunner().invoke(command, ["--log", "-"], input=excerpt["log"])
    assert guessed.exit_code == 0
    assert engine.removeprefix("ik_") in guessed.stdout


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ik_llama.cpp"])
def test_whose_log_it_is_is_told_as_diagnose_tells_it(engine: str):
    done = CliRunner().invoke(command, ["--log", str(LOGS.parent / f"healthy/{engine}.log"), "--json"])
    assert json.loads(done.stdout)["engine"] == engine == diagnose_file(LOGS.parent / f"healthy/{engine}.log").engine


def test_a_llama_cpp_that_was_started_quiet_is_told_how_to_speak(tmp_path: Path):
    done = CliRunner().invoke(command, ["--log", str(LOGS.parent / "clean/llama-default.log")])
    assert done.exit_code == 1
    assert "llama.cpp says nothing about its memory there" in done.stdout
    assert "--log-verbosity 4" in done.stdout
    (tmp_path / "x.log").write_text("hello world")
    unknown = CliRunner().invoke(command, ["--log", str(tmp_path / "x.log"), "--json"])
    assert (unknown.exit_code, json.loads(unknown.stdout)["engine"]) == (1, None)

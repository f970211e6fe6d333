"""The loop on the real llama-server: plan, start, read back, and a second plan that knows better."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import Upright
from tests.ports import free_port

pytestmark = pytest.mark.engine
SETTING = ("--context", "2k", "--users", "2")


@pytest.fixture
def box(upright: Upright, llama_server: Path) -> Iterator[Upright]:
    def run(*args: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return upright(*args, PATH=f"{llama_server.parent}:{os.environ['PATH']}", **more)

    yield run
    for item in json.loads(run("ps", "--json").stdout):
        run("down", item["name"])


def answer(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def ledger(plan: dict[str, Any], term: str) -> dict[str, Any]:
    return next(line for line in plan["plans"][0]["ledger"] if line["term"] == term)


def measured(residuals: dict[str, Any], term: str) -> int:
    return next(line["measured_bytes"]["value"] for line in residuals["lines"] if line["term"] == term)


def test_the_second_plan_uses_what_the_first_start_measured(box: Upright, tiny_model: Path, tmp_path: Path):
    first = answer(box("plan", tiny_model, *SETTING, "--json"))
    up = answer(box("up", tiny_model, *SETTING, "--port", str(free_port()), "--json"))
    directory = tmp_path / "home/deployments" / up["name"]
    assert (directory / "residuals.json").exists(), "kept at the start, before anybody asks"
    residuals = answer(box("residuals", "--json"))

    key = (directory / "key").read_text().strip()
    headers = {"Authorization": f"Bearer {key}"}
    said = httpx2.get(f"{up['base_url']}/props", headers=headers).json()
    tokens = said["total_slots"] * said["default_generation_settings"]["n_ctx"]
    pool = residuals["pool"]
    assert pool["measured_tokens"]["value"] == tokens == pool["predicted_tokens"]["value"] == 4096
    assert measured(residuals, "kv_cache") == ledger(first, "kv_cache")["bytes"], "to the byte"
    assert measured(residuals, "weights") == pytest.approx(
        ledger(first, "weights")["bytes"] + ledger(first, "experts")["bytes"], abs=0.0051 * 2**20
    ), "to the log's rounding"
    assert all(line["measured_bytes"]["basis"] == "measured" for line in residuals["lines"])
    assert residuals["unread"] == []

    second = answer(box("plan", tiny_model, *SETTING, "--json"))
    for term in ("compute", "process"):
        line, seen = ledger(second, term), measured(residuals, term)
        assert line["basis"] == "measured"
        assert f"measured on {up['name']}" in line["why"]
        assert line["bytes"] == pytest.approx(seen, rel=1e-3)
        assert line["low_bytes"] <= seen <= line["high_bytes"]
    assert ledger(first, "process")["bytes"] != ledger(second, "process")["bytes"]
    ignored = answer(box("plan", tiny_model, *SETTING, "--no-measured", "--json"))
    assert ledger(ignored, "process") == ledger(first, "process")

    page = box("residuals", COLUMNS="80").stdout
    assert max(map(len, page.splitlines())) <= 80
    assert "compute, process." in page
    stopped = answer(box("down", "--json"))
    assert stopped["state"] == "stopped"
    assert answer(box("residuals", "--json"))["pool"] == pool, "kept when the engine is gone"
    log = box("residuals", "--log", directory / "engine.log", "--json")
    assert answer(log)["engine"] == "llama.cpp"
    against = answer(box("residuals", up["name"], "--log", directory / "engine.log", "--json"))
    assert measured(against, "compute") == measured(residuals, "compute")


def test_a_log_that_says_nothing_is_said(box: Upright, tmp_path: Path):
    log = tmp_path / "other.log"
    log.write_text("INFO: Application startup complete.\n")
    done = box("residuals", "--log", log)
    assert done.returncode == 1
    assert "no engine that is known says anything about its memory there" in done.stdout
    assert box("residuals", "--log", tmp_path / "none.log").returncode == 2
    assert "there is no deployment yet" in box("residuals").stderr
    wrong = box("residuals", "--log", log, "--engine", "ollama")
    assert (wrong.returncode, "no engine named ollama" in wrong.stderr) == (2, True)

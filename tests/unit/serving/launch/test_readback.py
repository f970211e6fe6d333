"""Reading back when things are not as they should be: said, never guessed, and never in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.planning.test_learning import CPU, gguf, llama_log, llama_plan
from upright.facts import store
from upright.facts.records.deployment import Deployment, Process
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.flows.line import measure_residuals
from upright.serving.launch.processes import leader
from upright.serving.launch.readback import measure_resident, read_back, residuals_of


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeploymentDir:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    made, found = store.create("toy"), llama_plan()
    recipe = Recipe(
        made_from=(found.reference,),
        engine="llama.cpp",
        engine_version="b1",
        runtime="process",
        program="llama-server",
        arguments=(),
        model_path="/models/toy.gguf",
        served_name="toy",
        host="127.0.0.1",
        port=1,
        context_tokens=4096,
        users=1,
        health_path="/health",
        metrics_path="/metrics",
    )
    for record in (CPU, gguf(), found, recipe, deployment("stopped")):
        made.write(record)
    made.log.write_text(llama_log(found, scratch_mib=300))
    return made


def deployment(state: str, **fields: object) -> Deployment:
    return Deployment(
        name="toy",
        state=state,
        engine="llama.cpp",
        engine_version="b1",
        served_name="toy",
        base_url="http://127.0.0.1:1",
        context_tokens=4096,
        created_at="2026-11-15T10:00:00",
        changed_at="2026-11-15T10:00:00",
        **fields,
    )


def test_a_log_is_enough(directory: DeploymentDir):
    found = read_back(directory)
    compute = found.line("host", "compute")
    assert compute is not None
    assert compute.measured_bytes.value == 300 * 2**20
    process = found.line("host", "process")
    assert process is not None
    assert process.measured_bytes.value is None
    assert found.pool.measured_tokens.value == 4096
    assert store.measured_residuals() == (found,)


def test_an_engine_that_does_not_answer_is_said(directory: DeploymentDir):
    directory.write(deployment("ready", process=Process(pid=2**22 - 1, started_ticks=1)))
    found = residuals_of(directory)
    assert "cannot be reached" in found.unread[0]
    assert "the kernel does not tell it" in found.unread[1]
    assert found.pool.measured_tokens.value == 4096, "the log's figure stays"


def test_a_container_is_not_asked_for_its_memory(directory: DeploymentDir):
    directory.write(deployment("ready", process=Process(pid=1, started_ticks=1), runtime="podman", container="x"))
    assert "in a container or on another machine" in residuals_of(directory).unread[-1]


def test_an_empty_log_is_said(directory: DeploymentDir):
    directory.log.unlink()
    found = read_back(directory)
    assert found.unread == ("the log of toy says nothing about memory",)
    assert llama_plan(measured=store.measured_residuals()).ledger == llama_plan().ledger


def test_another_recipe_than_the_plans_teaches_nothing(directory: DeploymentDir):
    recipe, plan = directory.read(Recipe), directory.read(Plan).reference
    set_aside = recipe.model_copy(update={"made_from": (plan,)})
    (directory.path / "recipe-1.json").write_text(set_aside.to_json())
    for made_from in ((plan,), (set_aside.reference,)):
        directory.write(recipe.model_copy(update={"made_from": made_from}))
        found = read_back(directory)
        assert "the recipe was changed after the plan was made" in found.unread[-1]
        assert not directory.has(Residuals)


def test_a_new_recipe_of_a_new_plan_teaches(directory: DeploymentDir):
    recipe, plan = directory.read(Recipe), directory.read(Plan).reference
    older = recipe.model_copy(update={"made_from": ("plan:0",)})
    (directory.path / "recipe-1.json").write_text(older.to_json())
    directory.write(recipe.model_copy(update={"made_from": (plan,)}))
    found = read_back(directory)
    assert found.unread == ()
    assert directory.read(Residuals) == found


def test_what_cannot_be_read_is_told_and_nothing_falls(directory: DeploymentDir):
    said: list[str] = []
    directory.file(Plan).unlink()
    assert measure_residuals(directory, tell=said.append) is None
    assert said == ["not measured: deployment toy has no plan record"]
    (directory.path / "residuals.json").write_text("{torn")
    assert store.measured_residuals() == ()


def test_the_memory_of_a_group_of_processes():
    words = "import os, time; os.fork(); kept = b'x' * 2**24; os.write(1, b'up\\n'); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
        found = measure_resident(leader(child.pid))
        assert found is not None
        assert found.processes == 2
        assert 2 * 2**24 <= found.anonymous_bytes < 2 * 2**24 + 2**26
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(10)
        if child.stdout is not None:
            child.stdout.close()
    assert measure_resident(Process(pid=2**22 - 1, started_ticks=1)) is None

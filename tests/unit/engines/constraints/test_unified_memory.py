"""DGX Spark: GPU and system share one memory. On the page, in the JSON, in the recipe, in `check` and in `diagnose`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from upright.app.cli.plan import command
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.compose import compose_file
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.rendering.systemd import systemd_unit
from upright.serving.check import check
from upright.serving.diagnose.diagnose import diagnose_file

SPARK = "dgx-spark"
FLAGS = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}


def recipe(engine: str, box: str = SPARK) -> Recipe:
    machine, model = catalog.box_record(box), records(catalog.model("gpt-oss-120b"))[0]
    made = plan(machine, model, Goal(engine=engine))[0]
    return render(made, model, machine, model_path="weights", port=8000, wishes=RenderOptions(must_be_installed=False))


@pytest.mark.parametrize("engine", FLAGS)
def test_the_share_is_capped_and_the_system_has_its_own(engine, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    words = ["gpt-oss-120b", "--box", SPARK, "--engine", engine]
    shown = " ".join(CliRunner().invoke(command, [*words, "--why"]).output.split())
    assert "0.94" not in shown
    assert "host_reserve" in shown
    best = json.loads(CliRunner().invoke(command, [*words, "--json"]).stdout)["plans"][0]
    assert best["fits"] is True
    assert best["memory_fraction"] == 0.8
    total = catalog.box_record(SPARK).gpus[0].memory_bytes.value
    outside = sum(line["bytes"] for line in best["ledger"] if line["device"] == "host")
    assert best["budgets"][0]["capacity_bytes"] + outside <= total


@pytest.mark.parametrize("engine", FLAGS)
def test_the_recipe_has_a_limit_and_check_refuses_more(engine):
    made = recipe(engine)
    settings = {setting.name: setting.value for setting in made.arguments}
    assert float(settings[FLAGS[engine]] or 0) == 0.8
    assert made.memory_limit_bytes is not None
    assert f"MemoryMax={made.memory_limit_bytes}" in systemd_unit(made)
    assert f"mem_limit: {made.memory_limit_bytes}" in compose_file(made)
    assert check(made).verdict == "accepted"
    for share, verdict in (("0.92", "refused"), ("0.83", "accepted")):
        others = tuple(
            setting.model_copy(update={"value": share}) if setting.name == FLAGS[engine] else setting
            for setting in made.arguments
        )
        judged = check(made.model_copy(update={"arguments": others}))
        assert judged.verdict == verdict
        told = [*(refusal.message for refusal in judged.refusals), *judged.remarks]
        assert any(f"{engine}-unified-memory" in sentence for sentence in told)


def test_a_box_with_memory_of_its_gpu_has_no_limit():
    made = recipe("vllm", "1x-rtx-pro-6000-server")
    assert made.memory_limit_bytes is None
    assert "MemoryMax" not in systemd_unit(made)


def test_a_share_that_is_asked_for_is_refused(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    words = ["gpt-oss-120b", "--box", SPARK, "--gpu-memory-utilization", "0.94", "--engine", "vllm"]
    shown = " ".join(CliRunner().invoke(command, words).output.split())
    assert "constraints/vllm-unified-memory-most" in shown
    assert "0.92 does not start" in shown


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from x",
        "upright: the system had 3.10 GiB of memory left, which GPU and system share: the engine was ended before "
        "the machine stopped answering",
    ],
)
def test_diagnose_knows_it(line, tmp_path):
    log = tmp_path / "engine.log"
    log.write_text(f"INFO loading\n{line}\n")
    assert diagnose_file(log).code == "unified-memory-exhausted"

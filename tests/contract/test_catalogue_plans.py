"""Every model of the catalogue, by its name and by what people type: an answer, offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.facts import catalog
from upright.facts.catalog.rows.model import ModelRow
from upright.models.deriving.catalogue_models import record

BOX = "8x-rtx-pro-6000-server"
ROWS = list(catalog.models())
SPELLINGS = {
    "kimi-k3": "kimi-k3", "Kimi-K3": "kimi-k3", "k3": "kimi-k3", "deepseek-ai/DeepSeek-V4-Pro": "deepseek-v4-pro",
    "DeepSeek-V4-Flash": "deepseek-v4-flash", "deepseek-v4.1-flash": "deepseek-v4.1-flash", "glm-5.1": "glm-5",
    "zai-org/GLM-5.3": "glm-5.3", "GLM-5.3-Flash": "glm-5.3-flash", "qwen3.5-35b-a3b": "qwen3.5-35b-a3b",
    "qwen3.6": "qwen3.6-35b-a3b", "Qwen3.8-Flash-Next": "qwen3.8-flash-next", "minimax-m3": "minimax-m3",
    "gpt-oss-20b": "gpt-oss-20b", "openai/gpt-oss-120b": "gpt-oss-120b", "llama-4": "llama-4-scout",
    "nemotron-3-super": "nemotron-3-super-120b-a12b", "nemotron-3-nano": "nemotron-3-nano-30b-a3b",
    "gemma-4-31b": "gemma-4-31b", "gemma-4-26B-A4B": "gemma-4-26b-a4b", "qwen3-coder-next": "qwen3-coder-next-80b-a3b",
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_model_is_planned_offline(row: ModelRow) -> None:
    answer = CliRunner().invoke(cli, ["plan", row.id, "--box", BOX, "--json"])
    assert answer.exit_code in (0, 1), answer.stderr
    told = json.loads(answer.stdout)
    best = told["plans"][0]
    assert told["fits"] is best["fits"] is (answer.exit_code == 0)
    assert best["fits"] or best["objections"]
    assert best["kv"]["bytes_per_token"] is not None or best["not_understood"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_configuration_alone_is_planned_and_read(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(catalog.configuration("moonshotai--Kimi-K3")))
    for named in (file, tmp_path):
        planned = CliRunner().invoke(cli, ["plan", str(named), "--engine", engine, "--box", "hgx-b200", "--json"])
        assert planned.exit_code in (0, 1), planned.stderr
        assert json.loads(planned.stdout)["plans"][0]["kv"]["bytes_per_token"] == 27_648
        told = CliRunner().invoke(cli, ["read", str(named), "--json"])
        assert json.loads(told.stdout)["not_understood"] == []


@pytest.mark.parametrize(("typed", "row"), SPELLINGS.items())
def test_common_spellings_find_their_model(typed: str, row: str) -> None:
    found = catalog.find_model(typed)
    assert found is not None
    assert found.id == row


def test_most_artifacts_have_a_size() -> None:
    made = [record(row, artifact) for row in ROWS for artifact in row.artifacts]
    assert len(ROWS) >= 52
    assert sum(model is not None for model in made) >= 0.95 * len(made)

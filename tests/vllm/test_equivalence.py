"""Equivalence on a real vLLM, held against llama.cpp at full precision: it passes, and a planted wrong RoPE is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.engines.test_equivalence import Bench
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, Standing
from upright.proof.ladder.equivalence.references import save_reference

pytestmark = pytest.mark.slow
THETA = 1000.0


@pytest.fixture(scope="module")
def reference(llama_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    save_reference(Bench(llama_server, folder).proved("f32"), folder / "reference.json")
    return folder / "reference.json"


def summary(upright: Upright, name: str, reference: Path) -> dict[str, Any]:
    words = ("--prompts", "tiny", "--only", "equivalence", "--reference", reference, "--json")
    proved = upright("prove", name, *words)
    assert proved.stdout, proved.stderr
    seen = {seen["check"]: seen for seen in json.loads(proved.stdout)["observations"] if seen["rung"] == "equivalence"}
    for check in ("divergence", "agreement", "flips"):
        print(f"{name:12} {seen[check]['verdict']:7} {seen[check]['reason']}")
    return seen


def with_theta(model: Path, target: Path, theta: float) -> Path:
    """The same weights with another base of their rotary embedding, wherever the configuration has it."""
    shutil.copytree(model, target)
    file = target / "config.json"
    configuration = json.loads(file.read_text())
    for part in (configuration, configuration.get("rope_parameters") or {}, configuration.get("rope_scaling") or {}):
        if "rope_theta" in part:
            part["rope_theta"] = theta
    file.write_text(json.dumps(configuration))
    return target


def test_the_same_model_passes_and_a_wrong_rope_is_told(
    standing: Standing, vllm_box: Upright, tmp_path: Path, reference: Path
) -> None:
    same = summary(standing.upright, standing.name, reference)
    broken = with_theta(standing.model, tmp_path / "tiny-kimi", THETA)
    port = str(free_port())
    up = vllm_box("up", broken, "--engine", "vllm", "--context", str(CONTEXT), "--port", port, "--json")
    assert up.returncode == 0, up.stderr
    wrong = summary(vllm_box, json.loads(up.stdout)["name"], reference)
    assert (same["divergence"]["verdict"], wrong["divergence"]["verdict"]) == ("passed", "failed")
    near, far = (seen["divergence"]["measured"]["divergence"] for seen in (same, wrong))
    assert far > 10 * near

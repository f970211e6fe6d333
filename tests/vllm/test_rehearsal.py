"""vLLM on the real shapes with only configuration and tokenizer there: headers from a hub, weights from nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.loopback_hub import LoopbackHub
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, answer


def test_dummy_weights_of_the_real_shapes(
    vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    weights = sum(path.stat().st_size for path in tiny_checkpoint.glob("*.safetensors"))
    with LoopbackHub(tiny_checkpoint).running() as hub:
        words = ("rehearse", "tiny/kimi", "--engine", "vllm", "--context", str(CONTEXT), "--port", str(free_port()))
        done = vllm_box(
            *words,
            "-o",
            tmp_path / "rehearsal.json",
            HF_ENDPOINT=hub.hub_url,
            HF_HOME=str(tmp_path / "hf"),
            timeout=850,
        )
        sent = hub.weight_bytes_sent
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "rehearsal.json").read_text())
    assert (found["passed"], found["answered"], found["ways"]) == (True, True, ["dummy weights"])
    assert sent < weights / 4, "headers only"
    assert found["kv_tokens"] > CONTEXT
    assert {share["what"] for share in found["shares"]} >= {"kv_cache"}
    assert answer(vllm_box("ps", "--json")) == []
    with capsys.disabled():
        print(f"\n{done.stdout}")

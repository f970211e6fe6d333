"""Ten commands, and what the real vLLM's own start code says of each, on GPUs that are not here."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import made_by

pytestmark = pytest.mark.timeout(1800)
CPU_SECONDS = 60
UPRIGHT = Path(sys.executable).with_name("upright")


@pytest.fixture(scope="module")
def phantom() -> str:
    """vLLM for CUDA with its companions, without their libraries."""
    return os.environ.get("UPRIGHT_TEST_PHANTOM") or made_by("get-phantom")


def upright(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([UPRIGHT, *words], capture_output=True, text=True, check=False)


def checked(engine: str | Path, model: str, *words: str) -> tuple[int, dict[str, Any]]:
    """The command's exit code and what it answers, in so many seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = upright("check", model, *words, "--deep", "--with", str(engine), "--json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"\n{model} {' '.join(words)}: {spent:.0f} s of processor time")
    assert spent < CPU_SECONDS
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(answer["start"]))
    return done.returncode, answer


def recipe_with(folder: Path, model: str, *words: str, **settings: str) -> str:
    """A recipe that somebody changed by hand."""
    file = folder / "recipe.json"
    made = upright("render", model, *words, "-o", str(file))
    assert made.returncode == 0, made.stderr
    recipe = json.loads(file.read_text())
    named = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
    for setting in recipe["arguments"]:
        setting["value"] = named.pop(setting["name"], setting.get("value"))
    recipe["arguments"] += [{"name": name, "value": value, "reason": "by hand"} for name, value in named.items()]
    del recipe["digest"]  # the change is meant
    file.write_text(json.dumps(recipe))
    return str(file)


RIGHT = [
    ("MiniMaxAI/MiniMax-M2.7", "--box", "4x-h100-sxm", "--engine", "vllm", "--tp", "4"),
    ("openai/gpt-oss-20b", "--box", "1x-h100-sxm", "--engine", "vllm"),
    ("openai/gpt-oss-120b", "--box", "2x-h100-sxm", "--engine", "vllm", "--tp", "2"),
    ("Qwen/Qwen3-30B-A3B", "--box", "1x-rtx-pro-6000-server", "--engine", "vllm"),
    ("Qwen/Qwen3-32B", "--box", "2x-rtx-pro-6000-server", "--engine", "vllm", "--tp", "2"),
]


@pytest.mark.slow
@pytest.mark.parametrize("words", RIGHT, ids=lambda words: words[0])
def test_five_that_are_right_are_accepted_with_the_engines_own_pool(phantom: str, words: tuple[str, ...]):
    code, answer = checked(phantom, *words)
    start = answer["start"]
    assert (code, start["verdict"], start["stage"]) == (0, "accepts", "scheduler"), start
    assert start["weight_bytes"]
    assert start["pool_tokens"]


SIX = ("MiniMaxAI/MiniMax-M2.7", "--box", "6x-h100-sxm", "--engine", "vllm", "--tp", "4")


@pytest.mark.slow
def test_six_ranks_are_refused_by_eight_heads(phantom: str, tmp_path: Path):
    code, answer = checked(phantom, recipe_with(tmp_path, *SIX, tensor_parallel_size="6"))
    start = answer["start"]
    assert (code, start["verdict"]) == (1, "refuses"), start
    assert "total_num_kv_heads % tp_size == 0" in start["sentence"]
    assert (start["file"], start["line"]) == ("vllm/model_executor/models/minimax_m2.py", 164)


@pytest.mark.slow
def test_sparse_attention_on_sm80_is_refused(phantom: str, tmp_path: Path):
    """A recipe for other cards, as somebody brings it to these."""
    words = ("nvidia/DeepSeek-V3.2-NVFP4", "--box", "8x-h200-sxm", "--engine", "vllm", "--tp", "8")
    recipe = recipe_with(tmp_path, *words, kv_cache_dtype="auto")
    code, answer = checked(phantom, recipe, "--box", "8x-a100-sxm-80gb")
    start = answer["start"]
    assert (code, start["verdict"], start["file"]) == (1, "refuses", "vllm/platforms/cuda.py"), start
    assert "No valid attention backend found" in start["sentence"]


@pytest.mark.slow
def test_a_cache_type_without_a_backend_is_refused(phantom: str, tmp_path: Path):
    words = ("Qwen/Qwen3-30B-A3B", "--box", "1x-h100-sxm", "--engine", "vllm")
    code, answer = checked(phantom, recipe_with(tmp_path, *words, kv_cache_dtype="fp8_ds_mla"))
    start = answer["start"]
    assert (code, start["verdict"]) == (1, "refuses"), start
    assert "kv_cache_dtype" in start["sentence"]


@pytest.mark.slow
def test_a_length_beyond_the_pool_is_refused(phantom: str, tmp_path: Path):
    """Of a card that has less beside the weights than one request of this length takes, whatever else it needs."""
    words = ("Qwen/Qwen3-32B", "--box", "1x-rtx-pro-6000-server", "--engine", "vllm", "--context", "16k")
    recipe = recipe_with(tmp_path, *words, gpu_memory_utilization="0.7", max_model_len="40000")
    code, answer = checked(phantom, recipe, "--box", "1x-rtx-pro-6000-server")
    start = answer["start"]
    assert (code, start["verdict"], start["stage"]) == (1, "refuses", "pool"), start
    assert start["free_at_most"]


def test_without_its_companion_packages_it_is_not_known(vllm_environment: Path):
    """vLLM for CPUs brings no FlashInfer, without which nobody can say what DeepSeek V4 does on SM 12.0."""
    words = ("deepseek-ai/DeepSeek-V4-Flash", "--box", "4x-rtx-pro-6000-server", "--engine", "vllm", "--tp", "4")
    code, answer = checked(vllm_environment, *words)
    start = answer["start"]
    assert (code, answer["judge"], start["verdict"]) == (0, "parser", "not-known"), start
    assert "flashinfer" in " ".join(start["not_asked"]).lower()

"""Whose log it is, and whose files, flags and variables a text names that is no log."""

from __future__ import annotations

import re

import pytest

from tests.failure_board import recorded, threads
from upright.engines import ENGINES
from upright.serving.diagnose.milestones import engine_of

NAMES = re.compile(r"(?i)\bvllm\b|\bsglang\b|\bllama\.cpp|\bllama-server\b|\bktransformers\b|\bik_llama(?:\.cpp)?")
FORKS = {"ik_llama.cpp": "llama.cpp", "ktransformers": "sglang"}


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ('  File "/opt/lib/model_executor/layers/fused_moe/layer.py", line 7, in forward', "vllm"),
        ('  File "v1/engine/core.py", line 711, in run_engine_core', "vllm"),
        ("it only starts with --max-model-len 8192 and --gpu-memory-utilization 0.8", "vllm"),
        ('  File "/opt/lib/srt/managers/scheduler.py", line 3, in run', "sglang"),
        ("Capture cuda graph failed: out of memory; --mem-fraction-static 0.9", "sglang"),
        ("/build/ggml/src/ggml-cuda/ggml-cuda.cu:88: CUDA error", "llama.cpp"),
        ("GGML_ASSERT(!(split && ne02 > 1)) failed", "llama.cpp"),
        ("iqk_mul_mat.cpp: GGML_ASSERT(ok) failed, with -fmoe and -rtr", "ik_llama.cpp"),
        ("--kt-weight-path is missing", "ktransformers"),
        ("it crashes when it starts", None),
        ("--max-model-len 8192 is what I had, now it is --mem-fraction-static 0.8", None),
    ],
)
def test_a_file_a_flag_or_a_function_tells(text: str, engine: str | None) -> None:
    assert engine_of(text) == engine


def test_recorded_excerpts_without_the_engines_names_are_seldom_taken_for_anothers() -> None:
    ours = [failure for failure in (*recorded()["failures"], *threads()) if failure["engine"] in ENGINES]
    told = [(failure["engine"], engine_of(NAMES.sub("x", failure["excerpt"]))) for failure in ours]
    named = [(engine, found) for engine, found in told if found is not None]
    wrong = [(engine, found) for engine, found in named if found not in (engine, FORKS.get(engine))]
    assert len(named) >= 0.3 * len(ours), f"{len(named)} of {len(ours)}"
    assert len(wrong) <= 0.01 * len(named), wrong

"""An exception that no row knows is told by the part of the engine that raised it; one that a row knows is not."""

from __future__ import annotations

import io

import pytest

from upright.facts.records.diagnosis import Diagnosis
from upright.serving.diagnose import diagnose

TRACEBACK = """\
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946] Traceback (most recent call last):
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946]   File "/x/vllm/v1/engine/core.py", line 109, in __init__
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946]     step()
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946]   File "/x/{inner}", line 261, in {function}
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946]     moons()
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946]   File "/x/torch/utils/_contextlib.py", line 116, in decorate
(EngineCore_DP0 pid=11) ERROR 04-25 10:00:00 [core.py:946] {exception}
"""


def told(inner: str, function: str = "forward", exception: str = "OddError: 17 moons", after: str = "") -> Diagnosis:
    log = TRACEBACK.format(inner=inner, function=function, exception=exception) + after
    return diagnose(io.BytesIO(log.encode()), subject="log")


@pytest.mark.parametrize(
    ("inner", "function", "code"),
    [
        ("vllm/model_executor/models/qwen3_vl_moe.py", "load_weights", "place-weights"),
        ("vllm/entrypoints/openai/tool_parsers/glm4_moe_tool_parser.py", "extract", "place-tool-parser"),
        ("vllm/v1/spec_decode/eagle.py", "propose", "place-speculation"),
        ("vllm/model_executor/layers/fused_moe/layer.py", "forward", "place-moe"),
        ("sglang/srt/mem_cache/memory_pool.py", "alloc", "place-scheduler"),
        ("vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py", "alloc", "place-kv-transfer"),
    ],
)
def test_the_innermost_part_with_a_name_is_told(inner: str, function: str, code: str):
    found = told(inner, function)
    assert found.code == code
    assert found.findings[0].seen.text.endswith("OddError: 17 moons")
    assert found.excerpt[-1].text.endswith("OddError: 17 moons")
    assert found.findings[0].remedies


def test_a_row_that_knows_the_exception_speaks_first():
    assert told("vllm/v1/spec_decode/eagle.py", exception="torch.OutOfMemoryError: CUDA out of memory.").code == (
        "cuda-out-of-memory"
    )


def test_a_part_without_a_name_tells_nothing():
    assert told("moon/align.py").code is None


def test_frames_of_another_process_tell_nothing():
    other = TRACEBACK.format(inner="vllm/v1/spec_decode/eagle.py", function="propose", exception="")
    log = other.rsplit("\n", 2)[0] + "\n(APIServer pid=1) ERROR 04-25 10:00:01 [api.py:1] OddError: 17 moons\n"
    assert diagnose(io.BytesIO(log.encode()), subject="log").code is None


def test_an_engine_that_stood_up_afterwards_has_no_failure():
    found = told("vllm/v1/spec_decode/eagle.py", after="(APIServer pid=1) INFO:     Application startup complete.\n")
    assert not found.failed
    assert found.code is None


def test_a_stack_that_was_pasted_under_its_exception_is_read_too():
    stack = (
        'OddError: 17 moons\n\nStack trace:\n  File "vllm/v1/kv_offload/cpu/manager.py", line 120, in prepare_load\n'
    )
    assert diagnose(io.BytesIO(stack.encode()), subject="log").code == "place-kv-transfer"
    other = stack.replace("Stack trace:", "Traceback (most recent call last):")
    assert diagnose(io.BytesIO(other.encode()), subject="log").code is None


CUT = """\
(Worker_TP3 pid=22) ERROR 03-27 01:32:45 [x.py:8]   File "/x/vllm/v1/worker/worker.py", line 9, in run
(Worker_TP3 pid=22) ERROR 03-27 01:32:45 [x.py:8]     step()
(Worker_TP3 pid=22) ERROR 03-27 01:32:45 [x.py:8]   File "/x/vllm/models/utils.py", line 3, in load_weights
(Worker_TP3 pid=22) ERROR 03-27 01:32:45 [x.py:8]     autoloaded = set(self._load_module("", weights))
"""


def test_a_traceback_that_was_cut_is_told_by_its_last_part():
    found = diagnose(io.BytesIO(CUT.encode()), subject="log")
    assert found.code == "place-weights"
    assert found.failed
    assert "cut" in (found.findings[0].when or "")


def test_frames_after_which_something_else_was_said_are_no_cut_traceback():
    log = CUT + "(Worker_TP3 pid=22) INFO 03-27 01:32:46 [loader.py:1] Loading weights took 5.95 seconds\n"
    assert diagnose(io.BytesIO(log.encode()), subject="log").code is None


def test_an_engine_that_stood_up_was_not_cut():
    log = "INFO:     Application startup complete.\n" + CUT
    assert diagnose(io.BytesIO(log.encode()), subject="log").code is None

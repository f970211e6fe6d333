"""vLLM's own choice of an attention backend, on a CPU with AMX and on one without: our recipe stands on both.

No server: the platform, the backends and their assertion are asked in vLLM's own interpreter.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY_FOLDER
from upright.base.host import RecordedHost
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal
from upright.models.reading import read
from upright.planning.choosing import plan
from upright.planning.probing import probe
from upright.planning.rendering import render
from upright.serving.diagnose import LogContext, diagnose

HERE = Path(__file__).parent
AMX_BOX = HERE.parent / "recordings/boxes/synthetic-xeon-amx"
TYPES = ("auto", "bfloat16", "fp8")


@pytest.fixture(scope="module")
def asked(vllm_environment: Path) -> Any:
    """What vLLM says of every cache type, with AMX and without."""
    program = [vllm_environment / "bin/python3", HERE / "cpu_backends.py", *TYPES]
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def boxes() -> dict[str, Box]:
    amx = probe(RecordedHost(AMX_BOX))
    flags = tuple(flag for flag in amx.cpu.flags if not flag.startswith("amx_"))
    assert len(flags) < len(amx.cpu.flags)
    return {"amx": amx, "plain": amx.model_copy(update={"cpu": amx.cpu.model_copy(update={"flags": flags})})}


def test_amx_has_a_backend_of_its_own_for_mla_and_for_nothing_else(asked: Any):
    assert asked["amx"]["backends"] == {"mla": "AMX_MLA", "other": "CPU_ATTN"}
    assert asked["plain"]["backends"] == {"mla": "CPU_MLA", "other": "CPU_ATTN"}


def test_it_refuses_a_type_that_is_spelled_out_and_our_rows_know_its_words(asked: Any):
    stores = asked["amx"]["stores"]
    assert stores["auto"] == ""
    assert stores["bfloat16"] == stores["fp8"] != ""
    assert asked["plain"]["stores"] == dict.fromkeys(TYPES, "")
    for dtype, code in (("bfloat16", "vllm-amx-cache-type-spelled-out"), ("fp8", "vllm-cpu-fp8-cache")):
        log = f"Initializing a V1 LLM engine with config: kv_cache_dtype={dtype}, seed=0\n{stores[dtype]}\n"
        assert diagnose(io.BytesIO(log.encode()), subject="log", around=LogContext(engine="vllm")).code == code


@pytest.mark.parametrize("kind", ["amx", "plain"])
def test_our_recipe_stores_its_first_token(asked: Any, boxes: dict[str, Box], kind: str):
    model = read(str(TINY_FOLDER))
    made = plan(boxes[kind], model, Goal(engine="vllm"))[0]
    recipe = render(made, model, boxes[kind], model_path="/models/toy", port=8000)
    dtype = next(setting.value for setting in recipe.arguments if setting.name == "--kv-cache-dtype")
    assert asked[kind]["stores"][dtype] == ""
    assert made.kv.bytes_per_token == 4 * 576 * 2, "the bytes of bf16, however it is spelled"

"""ik_llama.cpp where it has no GPU: a core stays free, and cache types without a kernel are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Upright

MLA, GQA = "kimi-k2.6", "qwen3-30b-a3b"


def box(upright: Upright, folder: Path, name: str, cores: int) -> Path:
    known = json.loads(upright("probe", name, "--json").stdout)
    known["cpu"]["cores"] = cores
    known.pop("digest", None)
    path = folder / "box.json"
    path.write_text(json.dumps(known))
    return path


@pytest.mark.parametrize(("name", "cores", "threads"), [("cpu", 8, "7"), ("cpu", 1, "1"), ("1x-rtx-4090", 8, None)])
def test_a_core_stays_free(upright: Upright, tmp_path: Path, name: str, cores: int, threads: str | None):
    there = box(upright, tmp_path, name, cores)
    words = ("render", "gpt-oss-20b", "--box", there, "--ram", "64", "--engine", "ik_llama.cpp", "--json")
    recipe = json.loads(upright(*words).stdout)
    settings = {setting["name"]: setting["value"] for setting in recipe["arguments"]}
    assert settings.get("--threads") == threads


@pytest.mark.parametrize(
    ("model", "cache_type", "code"),
    [(MLA, "q6_0", 0), (MLA, "q8_0", 0), (MLA, "q4_0", 1), (MLA, "bf16", 1), (GQA, "q4_0", 0), (GQA, "q5_1", 1)],
)
def test_cache_types_are_those_that_answer(upright: Upright, model: str, cache_type: str, code: int):
    words = ("plan", model, "--box", "cpu", "--ram", "1TB", "--engine", "ik_llama.cpp", "--kv-dtype", cache_type)
    done = upright(*words)
    assert done.returncode == code, done.stdout
    assert ("constraints/ik-cpu-" in done.stdout) is bool(code)


def test_a_gpu_has_kernels_of_its_own(upright: Upright):
    words = ("plan", GQA, "--box", "1x-rtx-4090", "--engine", "ik_llama.cpp", "--kv-dtype", "q5_1")
    assert "constraints/ik-cpu" not in upright(*words).stdout

"""vLLM that falls on its first request is healed; stopped, or refused its port, it is told by name."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, Standing, answer


def healed_from(cache_type: str, upright: Upright, checkpoint: Path, folder: Path) -> Any:
    words = ("--context", str(CONTEXT), "--port", str(free_port()))
    recipe = answer(upright("up", checkpoint, *words, "--dry-run", "--json"))
    for setting in recipe["arguments"]:
        if setting["name"] == "--kv-cache-dtype":
            setting["value"] = cache_type
    recipe.pop("digest")
    (folder / "recipe.json").write_text(json.dumps(recipe))
    healed = answer(upright("up", folder / "recipe.json", "--heal", "--json", timeout=850))
    assert healed["stands"]
    return healed


@pytest.mark.slow
def test_a_type_that_is_spelled_out_stands_or_is_healed(vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path):
    """As recipes were: without AMX it stands; with AMX it falls on its first request, and `auto` mends it."""
    *fallen, last = healed_from("bfloat16", vllm_box, tiny_checkpoint, tmp_path)["attempts"]
    amx = "amx_tile" in Path("/proc/cpuinfo").read_text()
    assert [attempt["code"] for attempt in fallen] == ["vllm-amx-cache-type-spelled-out"] * amx
    assert (last["change"] or {}).get("value") == ("auto" if amx else None)


def test_an_fp8_cache_is_named_and_healed(vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path):
    healed = healed_from("fp8", vllm_box, tiny_checkpoint, tmp_path)
    first, second = healed["attempts"]
    assert first["code"] == "vllm-cpu-fp8-cache"
    assert (second["change"]["name"], second["change"]["value"]) == ("--kv-cache-dtype", "auto")
    assert second["result"] == "ready"
    name = healed["name"]
    assert answer(vllm_box("diagnose", name, "--json"))["failed"] is False


def test_an_engine_that_somebody_stopped_and_one_that_is_refused_are_told(standing: Standing):
    """SIGSTOP leaves no line in a log; an `up` on a port that is held starts nothing, and is not the run before."""
    upright, name = standing.upright, standing.name
    (record,) = (each for each in answer(upright("ps", "--json")) if each["name"] == name)
    group = record["process"]["pid"]
    os.killpg(group, signal.SIGSTOP)
    try:
        stopped = answer(upright("diagnose", name, "--json"), code=1)
    finally:
        os.killpg(group, signal.SIGCONT)
    assert stopped["findings"][0]["code"] == "hung-stopped"
    going_on = json.loads(upright("diagnose", name, "--json").stdout)  # what other tests asked of it is in its log
    assert "hung-stopped" not in {finding["code"] for finding in going_on["findings"]}
    port = standing.base_url.rpartition(":")[2]
    refused = upright("up", standing.model, "--context", str(CONTEXT // 2), "--port", port)
    assert refused.returncode != 0
    assert "cannot be had" in refused.stderr
    told = upright("diagnose")
    assert "up-refused" in told.stdout + told.stderr, told

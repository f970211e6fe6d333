"""vLLM falls on its first request with an fp8 cache; healed without a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, answer


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

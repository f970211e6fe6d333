"""vLLM falls on its first request with an fp8 cache; healed without a person."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Upright
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, answer


def test_an_fp8_cache_is_named_and_healed(vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path):
    words = ("--context", str(CONTEXT), "--port", str(free_port()))
    recipe = answer(vllm_box("up", tiny_checkpoint, *words, "--dry-run", "--json"))
    for setting in recipe["arguments"]:
        if setting["name"] == "--kv-cache-dtype":
            setting["value"] = "fp8"
    recipe.pop("digest")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    healed = answer(vllm_box("up", tmp_path / "recipe.json", "--heal", "--json", timeout=400))
    assert healed["stands"]
    first, second = healed["attempts"]
    assert first["code"] == "vllm-cpu-fp8-cache"
    assert second["change"]["name"] == "--kv-cache-dtype"
    assert second["result"] == "ready"
    name = healed["name"]
    assert answer(vllm_box("diagnose", name, "--json"))["failed"] is False

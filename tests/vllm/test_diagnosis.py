"""vLLM on CPU with two things wrong: an fp8 cache, at which it falls, and a kernel that only its answers give away."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.conftest import Upright
from tests.vllm.conftest import CONTEXT, answer, free_port


def test_what_falls_is_healed_and_what_then_stands_is_all_garbage(
    vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    twin = plain_rope(tiny_checkpoint, tmp_path / "plain-rope")
    healed = answer(vllm_box("up", with_fp8_cache(vllm_box, twin, tmp_path), "--heal", "--json", timeout=400))
    assert healed["stands"]
    first, second = healed["attempts"]
    assert first["code"] == "vllm-cpu-fp8-cache"
    assert second["change"]["name"] == "--kv-cache-dtype"
    assert second["result"] == "ready"
    assert answer(vllm_box("diagnose", healed["name"], "--json"))["failed"] is False

    evidence = answer(vllm_box("prove", "--to", "smoke", "--json"), 1)
    wrong = [item for item in evidence["observations"] if item["verdict"] == "failed"]
    assert {item["rung"] for item in wrong} <= {"boot", "smoke"}
    assert all(item["response"] is not None for item in wrong), "every reply was HTTP 200"
    asked = [item for item in evidence["observations"] if item["rung"] == "smoke"]
    assert not asked or sum(item["verdict"] == "failed" for item in asked) > len(asked) // 2


def plain_rope(checkpoint: Path, folder: Path) -> Path:
    """vLLM's CPU kernel is wrong for MLA with plain RoPE: /health is 200, every reply is 200, and none is right.

    Only a trained model shows it; the config says the same thing as the good one, without its identity YaRN.
    """
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    del config["rope_scaling"]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def with_fp8_cache(upright: Upright, model: Path, folder: Path) -> Path:
    """Healthy, and dead on the first request."""
    recipe = answer(upright("up", model, "--context", str(CONTEXT), "--port", str(free_port()), "--dry-run", "--json"))
    for setting in recipe["arguments"]:
        if setting["name"] == "--kv-cache-dtype":
            setting["value"] = "fp8"
    recipe.pop("digest")
    file = folder / "recipe.json"
    file.write_text(json.dumps(recipe))
    return file

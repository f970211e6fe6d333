"""A pattern matches the experts of its layers and nothing else, whatever the layers are."""

from __future__ import annotations

import random
import re

import pytest

from upright import Goal
from upright.engines.llamacpp.flags import experts_pattern, layers_pattern
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions

NAMES = [
    f"blk.{layer}.{name}.weight"
    for layer in range(61)
    for name in (
        "attn_kv_a_mqa", "attn_k_b", "attn_output", "ffn_norm", "ffn_gate_inp", "ffn_gate_shexp", "ffn_up_shexp",
        "ffn_down_shexp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps", "exp_probs_b",
    )
] + ["token_embd.weight", "output.weight", "output_norm.weight"]  # fmt: skip


def test_short_words():
    assert layers_pattern(range(1, 10)) == "[1-9]"
    assert layers_pattern([52, 53, 54, 55, 56, 57, 58, 59, 60]) == "5[2-9]|60"
    assert layers_pattern([3, 5, 10]) == "[35]|10"
    assert experts_pattern([1, 2]) == r"blk\.([12])\.ffn_.*_exps"


@pytest.mark.parametrize("seed", range(50))
def test_exactly_these_layers(seed):
    random_ = random.Random(seed)
    layers = random_.sample(range(120), random_.randint(1, 40))
    pattern = re.compile(experts_pattern(layers))
    for layer in range(130):
        assert bool(pattern.search(f"blk.{layer}.ffn_up_exps.weight")) == (layer in layers)


def test_every_tensor_of_the_artifact_lands_where_the_plan_put_it():
    box = catalog.box_record("2x-rtx-pro-6000-max-q-epyc-9175f")
    model = next(found for found in records(catalog.model("kimi-k2.6")) if found.name.endswith("IQ3_K"))
    made = plan(box, model, Goal(engine="ik_llama.cpp"))[0]
    wishes = RenderOptions(must_be_installed=False)
    recipe = render(made, model, box, model_path="/models/k.gguf", port=8000, wishes=wishes)
    rules = [setting.value.rpartition("=") for setting in recipe.arguments if setting.name == "--override-tensor"]
    assert len(rules) == 3
    homes = {layer: place.device for place in made.expert_places for layer in place.layers}
    for name in NAMES:
        # The first pattern that matches wins (llama-model-loader.cpp); what none matches stays with its layer.
        found = next((device for pattern, _, device in rules if re.search(pattern, name)), None)
        layer = int(name.split(".")[1]) if name.startswith("blk.") else None
        routed = name.endswith("_exps.weight") and layer in homes
        assert found == ({"gpu0": "CUDA0", "gpu1": "CUDA1", "host": "CPU"}[homes[layer]] if routed else found)
        assert routed or found is None or layer == 0

"""Weights on ranks and stages."""

from __future__ import annotations

import pytest

from tests.unit.planning.planning_examples import architecture
from upright.base.units import GB, GIB
from upright.facts import catalog
from upright.facts.catalog.model_records import record, records
from upright.facts.catalog.recorded_starts import StartKey, recorded_starts
from upright.facts.records.model import GqaAttention
from upright.models.deriving.catalogue_models import recorded_model
from upright.models.deriving.catalogue_models import records as derived
from upright.planning.memory.overhead import overheads, share_line
from upright.planning.memory.reserve import kinds_of
from upright.planning.memory.weights import rank_weights, replicated_share, stage_layers, step_bytes, tied
from upright.planning.speed.work import active_parameters

K25 = records(catalog.model("kimi-k2.5"))[0]


def test_the_catalogue_counts_the_published_bytes():
    text = sum(line.bytes for line in K25.weights if line.group != "vision")
    assert text / GB == pytest.approx(594.2, abs=0.05)
    assert K25.tensor_bytes / GB == pytest.approx(595.0, abs=0.01)


def test_kimi_k25_under_sglang_is_within_two_per_cent_of_the_measured_72_33():
    rank = rank_weights(K25, tensor=8, vision="replicated")[0]
    predicted = (rank.bytes + rank.absorbed_bytes) / GIB
    assert predicted == pytest.approx(72.33, rel=0.02)
    assert predicted == pytest.approx(71.81, abs=0.02)


def test_kimi_k2_thinking_nvfp4_under_sglang_keeps_the_scales_that_it_frees():
    """One layer's is 384 experts x 7,168 rows x 16 scales of a byte, 42 MiB; its log says 73.87 GiB."""
    row = catalog.model("kimi-k2-thinking")
    nvfp4 = record(row, next(each for each in row.artifacts if "NVFP4" in each.repository))
    assert nvfp4 is not None
    rank = rank_weights(nvfp4, tensor=8)[0]
    loaded = rank.bytes + rank.absorbed_bytes
    assert loaded / GIB == pytest.approx(71.07, abs=0.02)
    assert rank.expert_bytes / 27 == pytest.approx(60 * 384 * 7168 * 16, rel=0.001)
    kinds = kinds_of(nvfp4.architecture, nvfp4.quantisation)
    known = {each.term: each for each in overheads("sglang", "0.5.8", capability="12.0", model=row.id, kinds=kinds)}
    kept = share_line(known["scales"], "gpu0", rank.expert_bytes)
    assert kept.bytes == pytest.approx(rank.expert_bytes / 27, rel=0.002)
    assert (loaded + kept.bytes) / GIB == pytest.approx(73.87, rel=0.006)


@pytest.mark.parametrize(
    ("engine", "capability", "artifact", "kept"),
    [("sglang", "12.0", "NVFP4", True), ("sglang", "10.0", "NVFP4", False), ("vllm", "12.0", "NVFP4", False),
     ("sglang", "12.0", "K2.5", False)],
)  # fmt: skip
def test_only_nvfp4_under_sglang_on_sm_12_keeps_scales(engine: str, capability: str, artifact: str, kept: bool):
    model = next(each for each in records(catalog.model("kimi-k2.5")) if each.name.endswith(artifact))
    kinds = kinds_of(model.architecture, model.quantisation)
    assert (
        any(
            row.term == "scales"
            for row in overheads(engine, None, capability=capability, model="kimi-k2.5", kinds=kinds)
        )
        is kept
    )


def test_what_is_replicated_is_counted_once_a_rank():
    one, eight = rank_weights(K25, tensor=1)[0], rank_weights(K25, tensor=8)[0]
    assert one.bytes == pytest.approx(K25.tensor_bytes, abs=2)
    assert eight.replicated_bytes == one.replicated_bytes
    assert eight.replicated_bytes / GIB == pytest.approx(2.03, abs=0.01)
    assert eight.divided_bytes * 8 == pytest.approx(one.divided_bytes, abs=16)


def test_the_vision_tower_is_divided_replicated_or_left_out():
    sizes = {mode: rank_weights(K25, tensor=8, vision=mode)[0].bytes for mode in ("divided", "replicated", "left out")}
    tower = sum(line.bytes for line in K25.weights if line.group == "vision")
    assert sizes["replicated"] - sizes["left out"] == pytest.approx(tower, abs=2)
    assert sizes["divided"] - sizes["left out"] == pytest.approx(tower / 8, abs=2)


def test_stages_hold_every_layer_once_and_the_outer_tensors_at_the_ends():
    stages = rank_weights(K25, tensor=2, pipeline=4)
    assert sum(stage.layers for stage in stages) == 61
    whole = sum(2 * stage.divided_bytes + stage.replicated_bytes for stage in stages)
    assert whole == pytest.approx(K25.tensor_bytes, abs=64)


@pytest.mark.parametrize(
    ("layers", "stages", "counts"), [(61, 2, [31, 30]), (61, 4, [15, 15, 16, 15]), (7, 3, [2, 3, 2])]
)
def test_leftover_layers_go_before_the_last_stage(layers, stages, counts):
    assert [len(part) for part in stage_layers(layers, stages)] == counts


def test_kv_heads_are_repeated_when_there_are_more_ranks_than_heads():
    heads = architecture(GqaAttention(layers=10, heads=32, kv_heads=4, key_head_dim=128, value_head_dim=128))
    assert replicated_share(heads, 4) == 0
    share = replicated_share(heads, 8)
    # One of eight ranks holds a quarter of the keys and values instead of an eighth.
    keys = 4 * 256 / (36 * 256)
    assert float(share + (1 - share) / 8) == pytest.approx((1 - keys) / 8 + keys / 4)


def test_recurrent_layers_are_divided_whatever_the_heads_beside_them_repeat():
    """Their weights are attention too: of Qwen3.5-27B on 8 ranks 174 MiB were counted twice."""
    told = recorded_starts("vllm", "0.32.0")[StartKey("Qwen--Qwen3.5-27B", "8.0", 8, cache_type="bf16")]
    held = rank_weights(recorded_model("Qwen--Qwen3.5-27B"), tensor=8, vision="left out")[0]
    assert held.bytes == pytest.approx(told.weight_bytes, rel=0.01)


def test_an_embedding_that_is_the_output_too_is_read_by_every_step():
    """Gemma 4 26B was planned without 0.74 of its 3.8 billion active weights, and up to a third too fast."""
    gemma = derived(catalog.model("gemma-4-26b-a4b"))[0]
    embedding = sum(line.bytes for line in gemma.weights if line.group == "embedding")
    assert tied(gemma)
    assert not tied(K25)
    others = sum(line.bytes for line in gemma.weights if line.group in ("attention", "dense_ffn", "router", "norm"))
    assert step_bytes(gemma).always == pytest.approx(others + embedding, rel=0.01)
    assert active_parameters(gemma) / 1e9 == pytest.approx(3.8, rel=0.02)

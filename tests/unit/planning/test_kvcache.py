"""The cache's bytes a token, for every kind of attention."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.unit.planning.planning_examples import architecture, kimi_attention
from upright.base.errors import UsageError
from upright.base.units import GIB
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.model import GqaAttention, LinearAttention
from upright.planning.memory.kvcache import cache_shape, copies, rank_share

MLA = cache_shape(architecture(), "bf16")


@pytest.mark.parametrize(
    ("dtype", "expected"), [("bf16", 70_272), ("f16", 70_272), ("fp8", 35_136), ("q8_0", 37_332), ("q4_0", 19_764)]
)
def test_kimi_k2_bytes_a_token(dtype, expected):
    assert cache_shape(architecture(), dtype).bytes_per_token == expected


@pytest.mark.parametrize(
    ("tokens", "dtype", "gib"), [(180_191, "fp8", 5.90), (4_578, "bf16", 0.30), (131_768, "f16", 8.62)]
)
def test_pools_that_people_measured(tokens, dtype, gib):
    assert round(cache_shape(architecture(), dtype).sequence_bytes(tokens) / GIB, 2) == gib


def test_sparse_mla_packs_656_bytes_and_132_for_the_indexer():
    sparse = kimi_attention().model_copy(update={"indexer_head_dim": 128, "indexer_top_k": 2048})
    shape = cache_shape(architecture(sparse), "fp8_ds_mla")
    assert shape.bytes_per_token == 61 * (656 + 132)
    assert "132 B indexer key" in shape.formula


def test_fp8_of_an_indexer_model_is_its_packed_layout():
    """61,464 bytes a token for GLM-5, not 55,224: vLLM 0.32.0 flashmla_sparse.py calls fp8 an alias."""
    glm = records(catalog.model("glm-5"))[0].architecture
    assert cache_shape(glm, "fp8").bytes_per_token == 78 * (656 + 132) == 61_464
    assert cache_shape(glm, "fp8_ds_mla").bytes_per_token == 61_464
    assert cache_shape(glm, "fp8_e4m3").bytes_per_token == 78 * (576 + 132) == 55_224


def test_grouped_queries_count_keys_and_values():
    shape = cache_shape(
        architecture(GqaAttention(layers=92, heads=96, kv_heads=8, key_head_dim=128, value_head_dim=128)), "bf16"
    )
    assert shape.bytes_per_token == 376_832


def test_recurrent_layers_cost_a_sequence_and_no_token():
    full = GqaAttention(layers=15, heads=32, kv_heads=2, key_head_dim=256, value_head_dim=256)
    shape = cache_shape(architecture(full, LinearAttention(layers=45, state_bytes=1000)), "bf16")
    assert (shape.bytes_per_token, shape.bytes_per_state) == (30_720, 45_000)
    assert shape.unknown == ()


def test_an_unknown_state_is_said_and_not_invented():
    shape = cache_shape(architecture(LinearAttention(layers=4)), "bf16")
    assert shape.unknown == ("size of the recurrent state",)


def test_a_window_is_bounded():
    full = GqaAttention(layers=18, heads=64, kv_heads=8, key_head_dim=64, value_head_dim=64)
    shape = cache_shape(architecture(full, full.model_copy(update={"window_tokens": 128})), "bf16")
    assert shape.bytes_per_token == 36_864
    assert shape.sequence_bytes(100) == 100 * 73_728
    assert shape.sequence_bytes(10_000) == 10_000 * 36_864 + 128 * 36_864


def test_ranks_replicate_the_latent_cache_and_context_parallelism_divides_it():
    assert rank_share(MLA, tensor=8, decode_context=1) == 1
    assert copies(MLA, tensor=8, decode_context=1) == 8
    assert rank_share(MLA, tensor=8, decode_context=8) == Fraction(1, 8)
    assert copies(MLA, tensor=8, decode_context=8) == 1


def test_ranks_divide_heads_until_there_are_none_left():
    heads = GqaAttention(layers=10, heads=32, kv_heads=4, key_head_dim=128, value_head_dim=128)
    shape = cache_shape(architecture(heads), "bf16")
    assert rank_share(shape, tensor=2, decode_context=1) == Fraction(1, 2)
    assert rank_share(shape, tensor=8, decode_context=1) == Fraction(1, 4)
    assert copies(shape, tensor=8, decode_context=1) == 2


def test_an_unknown_cache_type_is_named():
    with pytest.raises(UsageError, match="q3_9"):
        cache_shape(architecture(), "q3_9")

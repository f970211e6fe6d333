"""Every model of the catalogue: bytes a token by formula against what was published."""

from __future__ import annotations

import pytest

from upright.facts import catalog
from upright.facts.catalog.model_records import architecture
from upright.planning.memory.kvcache import cache_shape

# Elements a token over all layers, as published or as the issue of an engine states them; sources in the catalogue.
PUBLISHED = {
    "kimi-k2-instruct": 35_136,
    "kimi-k2-thinking": 35_136,
    "kimi-k2.5": 35_136,
    "kimi-k2.6": 35_136,
    "kimi-k2.7-code": 35_136,
    "deepseek-v3": 35_136,
    "deepseek-v3.1": 35_136,
    "deepseek-r1": 35_136,
    "glm-4.6": 188_416,
    "glm-4.7": 188_416,
    "qwen3.5-397b-a17b": 15_360,
    "qwen3-235b-a22b": 96_256,
    "minimax-m2.5": 126_976,
    "minimax-m2.7": 126_976,
    "gpt-oss-120b": 18_432,
}
# Sparse MLA: the latent part as published, plus 132 B of indexer key on each layer that selects for itself.
SPARSE = {"deepseek-v3.2": (61, 61, 35_136), "glm-5": (78, 78, 44_928), "glm-5.2": (78, 21, 44_928)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_bytes_a_token_are_two_for_each_published_element(name):
    shape = _shape(name, "bf16")
    assert shape.bytes_per_token == 2 * PUBLISHED[name]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_models_add_the_indexers_key(name):
    layers, selecting, elements = SPARSE[name]
    assert _shape(name, "bf16").bytes_per_token == 2 * elements + 132 * selecting
    assert _shape(name, "fp8_ds_mla").bytes_per_token == 656 * layers + 132 * selecting


def test_no_model_with_a_shape_is_left_out():
    shaped = {row.id for row in catalog.models() if row.shape is not None}
    assert shaped - {"qwen3-coder-480b"} == set(PUBLISHED) | set(SPARSE)


def test_gpt_oss_keeps_128_tokens_in_half_of_its_layers():
    shape = _shape("gpt-oss-120b", "bf16")
    assert [window.tokens for window in shape.windows] == [128]
    assert shape.sequence_bytes(1) == 2 * 36_864


def _shape(name, dtype):
    return cache_shape(architecture(catalog.model(name)), dtype)

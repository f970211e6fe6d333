"""Blocks of unequal groups, beside what starts of DeepSeek V4 and V4.1 on 8 H100 printed (vLLM 0.31.1rc1)."""

from __future__ import annotations

from fractions import Fraction

import pytest

from upright.base.units import GIB
from upright.facts import catalog
from upright.models.deriving.catalogue_models import records
from upright.planning.memory.block_pool import Bucket, divide_pool
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage
from upright.planning.memory.pool_capacity import longest_tokens, pool_tokens, rank_cache

CONTEXT = 262_144


def held(model: str, dtype: str = "fp8_ds_mla"):
    storage = Storage("vllm", "0.32.0", "9.0")
    architecture = records(catalog.model(model))[0].architecture
    shape = cache_shape(architecture, dtype, storage=storage)
    return rank_cache(shape, storage, tensor=8, depth=Fraction(1), block=16)


@pytest.mark.parametrize(
    ("model", "pool_gib", "printed_tokens"),
    [("deepseek-v4-flash", 47.43, 1_728_531), ("deepseek-v4.1-flash", 29.14, 9_092_347)],
)
def test_a_pool_is_as_many_requests_as_its_blocks_admit(model, pool_gib, printed_tokens):
    tokens = pool_tokens(held(model), Fraction(int(pool_gib * GIB)), 1, CONTEXT)
    assert tokens == pytest.approx(printed_tokens, rel=0.001)


def test_a_request_of_deepseek_v4_takes_7706_blocks_most_of_them_for_tokens_in_flight():
    pages = held("deepseek-v4-flash").pages
    assert pages is not None
    assert pages.request_blocks(CONTEXT) == 1024 + 4099 + 2065 + 2 * 259
    assert pages.request_blocks(1024) < 1024


def test_the_longest_request_is_not_what_many_requests_hold_together():
    pool = Fraction(47 * GIB)
    flash = held("deepseek-v4-flash")
    assert longest_tokens(flash, pool) > 5 * pool_tokens(flash, pool, 1, 65_536)


def test_a_windowed_request_is_admitted_with_the_tokens_in_flight():
    storage = Storage("vllm", "0.32.0", "9.0")
    architecture = records(catalog.model("gpt-oss-120b"))[0].architecture
    shape = cache_shape(architecture, "bf16", storage=storage)
    rank = rank_cache(shape, storage, tensor=1, depth=Fraction(1), block=16)
    whole, windowed = 4096, 1032 + 1
    """Blocks of 16 tokens: of the window less one token and two batches of 8,192, and one more where it begins."""
    assert rank.request_bytes(65_536) == (whole + windowed) * 16 * 36_864
    assert rank.request_bytes(1_024) == (64 + 64 + 1) * 16 * 36_864
    fewer = cache_shape(architecture, "bf16", storage=storage, batched_tokens=2048)
    rank = rank_cache(fewer, storage, tensor=1, depth=Fraction(1), block=16)
    assert rank.request_bytes(65_536) == (whole + 264 + 1) * 16 * 36_864


def test_groups_are_split_for_the_fewest_padded_layers():
    growing = Bucket(((100, 2), (10, 2)), 256)
    windows = Bucket(((90, 5),), 64, 128)
    pages = divide_pool([growing, windows], in_flight=0)
    assert [count for _, count in pages.groups] == [1, 3]
    assert pages.block_bytes == 2 * 100 + 2 * 10

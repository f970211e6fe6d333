"""Configurations with keys dropped, renamed and added: a number never changes in silence.

Right is: refused with the key's name, not understood with bounds, or as the library's default says, which is named.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.accuracy.configs import raw
from upright.base.errors import ReadError
from upright.facts.records.model import Model
from upright.models.deriving.configuration import TEXT_PARTS
from upright.models.deriving.model import model_of
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage

MUTANTS = 2000
EACH = -(-MUTANTS // len(raw()))
NEW_KEYS = (
    "attention_stride", "kv_stride_layers", "sparse_block_config", "cache_compression_ratio", "head_groups_by_layer",
    "window_schedule", "linear_layer_ids", "kv_reuse_period", "state_slots", "latent_kv_width", "expert_shards",
    "memory_layers", "global_layers", "layer_repeats", "delta_rule_config", "hybrid_mixer",
)  # fmt: skip
NEW_ENTRIES: tuple[Any, ...] = (3, True, "auto", [0, 1] * 24, {"heads": 4}, 0.5)


def inner(config: dict[str, Any]) -> dict[str, Any]:
    """The part that describes the text model."""
    for name in TEXT_PARTS:
        if isinstance(config.get(name), dict) and config[name]:
            return inner(config[name])
    return config


def mutants(name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What was done, the key that should be told, and the configuration."""
    chance = random.Random(name)
    original = dict(raw()[name])
    keys = [key for key in inner(deepcopy(original)) if key not in ("architectures", "model_type")]
    for _ in range(EACH):
        config = deepcopy(original)
        part, key = inner(config), chance.choice(keys)
        way = chance.choice(("drop", "rename", "add"))
        if way == "add":
            key = chance.choice(NEW_KEYS)
            part[key] = chance.choice(NEW_ENTRIES)
        else:
            entry = part.pop(key)
            if way == "rename":
                part[f"{key}_v2"] = entry
        yield way, key, config


def numbers(model: Model) -> tuple[object, ...]:
    shape = cache_shape(model.architecture, "bf16", storage=Storage("vllm"))
    windows = tuple((window.tokens, window.bytes_per_token) for window in shape.windows)
    built = model.architecture
    return (
        shape.bytes_per_token,
        windows,
        built.attention,
        built.experts,
        built.tables,
        built.layers,
        model.tensor_bytes,
    )


def named(model: Model, than: Model) -> bool:
    """Whether something is told that was not told before."""
    return bool(model.not_understood) or bool(
        {taken.key for taken in model.assumed} - {taken.key for taken in than.assumed}
    )


def test_there_are_two_thousand_of_them() -> None:
    assert EACH * len(raw()) >= MUTANTS


@pytest.mark.parametrize("name", list(raw()))
def test_no_mutant_is_read_otherwise_in_silence(name: str) -> None:
    original = model_of(raw()[name], name=name, source=name)
    for way, key, config in mutants(name):
        mutant = read_or_refusal(config, name)
        if isinstance(mutant, str):
            assert way != "add", (key, mutant)
            assert key in mutant, (way, key)
            continue
        if way == "add":
            assert key in mutant.not_understood, (key, config)
        elif numbers(mutant) != numbers(original):
            assert named(mutant, original), (way, key)
        if mutant.not_understood:
            assert_bounded(mutant, original, (way, key))


def read_or_refusal(config: Mapping[str, Any], name: str) -> Model | str:
    try:
        return model_of(config, name=name, source=name)
    except ReadError as refusal:
        return str(refusal)


def assert_bounded(mutant: Model, original: Model, what: tuple[str, str]) -> None:
    """What the file meant lies between the bounds, where a key was only renamed or added."""
    built, storage = mutant.architecture, Storage("vllm")
    truth = cache_shape(original.architecture, "bf16", storage=storage).bytes_per_token
    low, high = built.attention_at_least, built.attention_at_most
    assert low is not None, what
    if what[0] != "drop":
        assert _bytes(low, mutant, storage) <= truth, what
        assert high is None or truth <= _bytes(high, mutant, storage), what


def _bytes(kinds: Any, model: Model, storage: Storage) -> Any:
    built = model.architecture.model_copy(
        update={"attention": kinds, "attention_at_least": None, "attention_at_most": None}
    )
    return cache_shape(built, "bf16", storage=storage).bytes_per_token


@pytest.mark.parametrize("name", list(raw()))
def test_a_family_that_nobody_knows_is_bounded(name: str) -> None:
    """Every layout of the corpus under a stranger's name: refused by name, and the truth between the bounds."""
    original, config = model_of(raw()[name], name=name, source=name), deepcopy(dict(raw()[name]))
    for holder in (config, inner(config)):
        holder |= {"architectures": ["StrangerForCausalLM"], "model_type": "stranger"}
    stranger = read_or_refusal(config, name)
    if isinstance(stranger, str):
        assert "has no" in stranger
        return
    assert stranger.not_understood[0] == "architectures"
    assert_bounded(stranger, original, ("rename", "architectures"))


def test_a_least_is_no_nought_where_the_file_tells_more() -> None:
    kimi = dict(raw()["moonshotai--Kimi-K2-Instruct"])
    added = model_of({**kimi, "index_cache_dim": 128}, name="k", source="k").architecture
    assert added.attention_at_least == added.attention
    strange = model_of({**kimi, "kv_stride": 4}, name="k", source="k").architecture
    assert strange.attention_at_least is not None
    assert _bytes(strange.attention_at_least, model_of(kimi, name="k", source="k"), Storage("vllm")) > 0
    layers = ["full_attention"] * 8 + ["spiral_attention"] * 24
    unknown = {**dict(raw()["Qwen--Qwen3-32B"]), "num_hidden_layers": 32, "layer_types": layers}
    low = model_of(unknown, name="q", source="q").architecture.attention_at_least
    assert low is not None
    assert [kind.layers for kind in low] == [8]


def test_a_mapping_is_left_as_it_was() -> None:
    before: Mapping[str, Any] = deepcopy(dict(raw()["moonshotai--Kimi-K3"]))
    list(mutants("moonshotai--Kimi-K3"))
    assert raw()["moonshotai--Kimi-K3"] == before

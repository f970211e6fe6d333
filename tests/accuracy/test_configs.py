"""Real configurations of models that people serve: bytes a token, states, windows, weights, as engines have them.

The answers and the lines of engine source that give them are in tests/assets/configs/corpus.yaml.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.configs import Answer, answers, corpus, model, planned, raw
from upright.models.deriving.configuration import parse_configuration
from upright.models.reading import read
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage

ANSWERS = list(answers())
NAMES = list(corpus())
UNCOUNTED = ("draft", "vision")


def _name(answer: Answer) -> str:
    return f"{answer.model} {answer.engine} {answer.cache_type}"


def test_the_corpus_is_all_here() -> None:
    assert len(NAMES) == len(raw()) == 52
    assert len(ANSWERS) >= 200
    assert {answer.engine for answer in ANSWERS} == {"vllm", "sglang", "llama.cpp"}


@pytest.mark.parametrize("answer", ANSWERS, ids=_name)
def test_bytes_a_token_states_and_windows_are_exact(answer: Answer) -> None:
    kv, right = planned(answer), answer.right
    assert kv.bytes_per_token == answer.token_bytes
    assert kv.low_bytes_per_token == kv.high_bytes_per_token == kv.bytes_per_token
    assert kv.state_bytes_per_sequence == right["state_bytes_per_sequence"]
    if (windows := right.get("window_bytes_per_sequence", {}).get(answer.cache_type)) is not None:
        assert kv.window_bytes_per_sequence == windows
    if isinstance(kept := right.get("states_kept_by_default"), int):
        assert kv.states_per_sequence == kept


@pytest.mark.parametrize("answer", [answer for answer in ANSWERS if answer.engine != "vllm"], ids=_name)
def test_windows_cost_what_the_engine_sets_aside_for_them(answer: Answer) -> None:
    shape = cache_shape(model(answer.model).architecture, answer.kv_dtype, storage=Storage(answer.engine))
    cell = sum(window.bytes_per_token for window in shape.windows)
    if (pool := answer.right.get("pool_bytes_per_token_bf16_default_ratio")) is not None:
        assert float(shape.bytes_per_token + (shape.pool_share or 0) * cell) == pytest.approx(pool)
    if (per_cell := answer.right.get("window_bytes_per_cell_f16")) is not None:
        assert cell == per_cell


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_understood_and_every_tensor_is_classed(name: str) -> None:
    found = model(name)
    assert found.not_understood == ()
    assert "other" not in {line.group for line in found.weights}
    layers = {line.layer for line in found.weights if line.layer is not None and line.group not in UNCOUNTED}
    assert layers == set(range(found.architecture.layers))
    assert sum(kind.layers for kind in found.architecture.attention) <= found.architecture.layers * 2


@pytest.mark.parametrize("name", [name for name in NAMES if "parameters_of_transformers" in corpus()[name]])
def test_parameters_by_group_are_those_that_transformers_builds(name: str) -> None:
    counted: dict[str, int] = {}
    for tensor in parse_configuration(raw()[name]).tensors:
        if tensor.group not in UNCOUNTED:
            counted[tensor.group] = counted.get(tensor.group, 0) + tensor.parameters
    assert counted == corpus()[name]["parameters_of_transformers"]


@pytest.mark.parametrize("name", [name for name in NAMES if "parameters_of_vllm" in corpus()[name]])
def test_parameters_are_those_that_vllm_builds(name: str) -> None:
    tensors = [tensor for tensor in parse_configuration(raw()[name]).tensors if tensor.group not in UNCOUNTED]
    counted = sum(tensor.parameters for tensor in tensors)
    # vLLM keeps a value projection of its own where keys are also values, and Gemma's layer scalars as buffers.
    copied = sum(
        tensor.parameters
        for tensor in tensors
        if tensor.name == "self_attn.k_proj.weight"
        and not any(other.layer == tensor.layer and other.name == "self_attn.v_proj.weight" for other in tensors)
    )
    scalars = sum(tensor.parameters for tensor in tensors if tensor.name == "layer_scalar")
    assert counted + copied - scalars == corpus()[name]["parameters_of_vllm"]


@pytest.mark.parametrize("name", [name for name in NAMES if "weights_gb" in corpus()[name]])
def test_weights_take_what_was_published(name: str) -> None:
    """Published sizes are rounded, and some count the prediction layers where others do not."""
    size, published = model(name).tensor_bytes / 1e9, corpus()[name]["weights_gb"]
    drafts = sum(line.bytes for line in model(name).weights if line.group == "draft") / 1e9
    assert min(abs(size - published), abs(size - drafts - published)) < 0.025 * published


@pytest.mark.parametrize("name", [name for name in NAMES if corpus()[name].get("host_tables")])
def test_tables_are_seen(name: str) -> None:
    (table,), right = model(name).architecture.tables, corpus()[name]["host_tables"]
    assert table.rows * table.row_bytes == pytest.approx(right["bytes"], rel=0 if table.exact else 1e-3)
    stored = sum(line.bytes for line in model(name).weights if line.group == "tables")
    assert stored == table.rows * table.row_bytes


def test_a_configuration_is_read_as_a_file_and_as_a_folder(tmp_path: Path) -> None:
    import json

    (tmp_path / "config.json").write_text(json.dumps(raw()["moonshotai--Kimi-K3"]))
    file, folder = read(str(tmp_path / "config.json")), read(str(tmp_path))
    assert file.basis == folder.basis == "derived"
    assert file.architecture == folder.architecture
    assert file.weights == folder.weights
    assert [kind.layers for kind in file.architecture.attention] == [69, 24]

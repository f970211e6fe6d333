"""The reserve follows its causes: properties, and starts of small models on small cards that people published."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import upright
from upright.app.cli.main import cli
from upright.base.units import GIB
from upright.facts.records.model import Architecture, Experts, GqaAttention
from upright.facts.records.plan import Parallel
from upright.planning.memory.overhead import overheads
from upright.planning.memory.reserve import ReserveCase, captured_sizes, kinds_of, with_causes
from upright.planning.memory.weights import rank_weights


def dense(layers: int = 36, hidden: int = 4096, wide: int = 12288, words: int = 151936) -> Architecture:
    attention = GqaAttention(layers=layers, heads=32, kv_heads=8, key_head_dim=128, value_head_dim=128)
    return Architecture(
        name="Qwen3ForCausalLM", family=None, layers=layers, hidden_size=hidden, vocabulary_size=words,
        context_limit_tokens=40960, attention=(attention,), intermediate_size=wide,
    )  # fmt: skip


def reserve(
    shape: Architecture,
    *,
    version: str = "0.32.0",
    capability: str = "8.9",
    ranks: int = 1,
    batched: int = 2048,
    asked: int = 4,
    draft: bool = False,
):
    rows = overheads("vllm", version, capability=capability, kinds=kinds_of(shape))
    case = ReserveCase(shape, Parallel(tensor=ranks), batched, asked, draft)
    return with_causes({row.term: row for row in rows}, case)


def gib(rows, end="best"):
    return sum(getattr(rows[term].gib, end) for term in ("runtime", "graphs"))


@pytest.mark.parametrize(
    ("version", "sequences", "words", "measured"),
    [
        ("0.16.0", 1024, 151936, 5.64), ("0.19.0", 1024, 151936, 2.21), ("0.19.0", 1024, 128256, 1.89),
        ("0.19.0", 1024, 256000, 3.63), ("0.15.0", 1024, 201088, 7.38), ("0.15.0", 1024, 128256, 4.76),
        ("0.8.5", 256, 151936, 1.40), ("0.19.0", 1024, 100352, 1.52), ("0.19.0", 1024, 131072, 2.03),
    ],
)  # fmt: skip
def test_a_start_that_names_its_parts_is_what_they_add_up_to(version, sequences, words, measured):
    """Peak activation as vLLM printed it, of dense models on H100 and of Qwen3-8B on a smaller card."""
    rows = reserve(dense(words=words), version=version, capability="9.0", batched=8192, asked=sequences)
    context = rows["context"].gib.best
    assert rows["runtime"].gib.best - context == pytest.approx(measured, rel=0.15)


@given(
    layers=st.integers(16, 64), hidden=st.integers(2048, 8192), words=st.integers(32_000, 262_144),
    batched=st.integers(512, 16_384), sequences=st.integers(1, 1024),
)  # fmt: skip
def test_it_shrinks_with_the_model_the_batch_and_the_sequences(layers, hidden, words, batched, sequences):
    full = reserve(dense(layers, hidden, 3 * hidden, words), batched=batched, asked=sequences)
    for smaller in (
        reserve(dense(layers // 2, hidden, 3 * hidden, words), batched=batched, asked=sequences),
        reserve(dense(layers, hidden // 2, 3 * hidden // 2, words), batched=batched, asked=sequences),
        reserve(dense(layers, hidden, 3 * hidden, words // 2), batched=batched, asked=sequences),
        reserve(dense(layers, hidden, 3 * hidden, words), batched=batched // 2, asked=sequences),
        reserve(dense(layers, hidden, 3 * hidden, words), batched=batched, asked=max(1, sequences // 2)),
    ):
        assert gib(smaller) <= gib(full)
        assert gib(smaller, "high") <= gib(full, "high") + 1e-9


def test_what_the_engine_takes_by_itself_follows_the_card():
    from upright.engines.vllm.budget import own_sequences

    assert own_sequences(24 * GIB, "8.9") == 256
    assert own_sequences(96 * GIB, "12.0") == 1024
    assert own_sequences(80 * GIB, "8.0") == 256, "an A100 is not among the large"


def test_a_plan_is_for_as_many_requests_as_its_recipe_asks_for():
    """Not for the 1,024 that the engine would take by itself: GLM-5.1 for six was said not to fit, though it does."""
    words = ["glm-5.1", "--box", "8x-rtx-pro-6000-workstation"]
    found = planned(*words, "--users", "6")
    by_itself = planned(*words, "--users", "6", "--max-num-seqs", "1024")
    assert found["objections"] == []
    assert by_itself["kv"]["low_tokens"] < 6 * 65536 <= found["kv"]["low_tokens"]
    assert found["kv"]["high_tokens"] < 1.3 * found["kv"]["low_tokens"]
    assert [note["message"] for note in found["notes"] if note["code"] == "tight"] == [
        "with 6 requests at once, as recipes ask for; with the engine's own 1,024 it may not fit"
    ]
    script = CliRunner().invoke(cli, ["render", *words, "--users", "6", "--engine", "vllm"]).stdout
    asked = int(" ".join(script.split()).partition("--max-num-seqs ")[2].partition(" ")[0])
    assert found["users_at_context"] <= asked <= 6


@given(users=st.integers(1, 300), context=st.integers(1024, 40_960))
def test_a_recipe_never_asks_for_more_than_was_planned(users, context):
    """What fits beside the fewest is planned for, so that what fits beside that is no more."""
    from upright.engines.model_settings import sequences

    plans = upright.plan("qwen3.6-35b-a3b", "1x RTX 5090", users=users, context_tokens=context, engine="vllm")
    for plan in plans:
        graphs = next(line for line in plan.ledger if line.term == "graphs")
        planned_for = int(graphs.why.partition(" captured sizes of ")[2].partition(" ")[0].replace(",", ""))
        assert sequences(plan) <= planned_for
    assert plans


def test_sizes_are_captured_as_the_engine_says_it():
    """As its logs have them: PIECEWISE=51 (largest=512), 35 (256), 19 (128), 11 (64), 7 (32), 5 (16), 4 (8)."""
    assert [captured_sizes(most) for most in (512, 256, 128, 64, 32, 16, 8)] == [51, 35, 19, 11, 7, 5, 4]


def test_experts_cost_buffers_and_several_ranks_theirs():
    sparse = dense().model_copy(
        update={"experts": Experts(count=128, active=8, shared=0, first_moe_layer=0, intermediate_size=768)}
    )
    assert gib(reserve(sparse, batched=8192)) > gib(reserve(sparse, batched=1024))
    assert gib(reserve(dense(), ranks=2)) > gib(reserve(dense()))
    assert "buffers of 2 ranks" in reserve(dense(), ranks=2)["runtime"].why


def small(tmp_path, name: str, **config: object) -> str:
    folder = tmp_path / name
    folder.mkdir()
    written = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "head_dim": 128,
        "num_key_value_heads": 8, "vocab_size": 151936, "max_position_embeddings": 40960, "hidden_act": "silu",
        "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "attention_bias": False, **config,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(written))
    return str(folder)


QWEN3 = {
    "4b": {"hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32, "num_hidden_layers": 36},
    "8b": {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "num_hidden_layers": 36},
    "14b": {"hidden_size": 5120, "intermediate_size": 17408, "num_attention_heads": 40, "num_hidden_layers": 40},
}


def planned(*words: str):
    done = CliRunner().invoke(cli, ["plan", *words, "--engine", "vllm", "--json"])
    return json.loads(done.stdout)["plans"][0]


@pytest.mark.parametrize(
    ("size", "box", "context", "more", "pool"),
    [
        # 16.33 + 1.89 + 0.25 GiB of 75.2 and so on, as its run matrix has it; the KV cache in GiB is the rest.
        ("8b", "1x-h100-sxm", "8192", ("--gpu-memory-utilization", "0.95", "--engine-version", "0.19.0"), 57.45),
        ("14b", "1x-h100-sxm", "8192", ("--gpu-memory-utilization", "0.95", "--engine-version", "0.18.0"), 45.23),
        ("14b", "1x-h100-sxm", "8192", ("--gpu-memory-utilization", "0.95", "--engine-version", "0.16.0"), 41.94),
        ("14b", "1x-h100-sxm", "8192", ("--gpu-memory-utilization", "0.95", "--engine-version", "0.17.0"), 45.34),
    ],
)
def test_dense_models_on_one_card_as_published(tmp_path, size, box, context, more, pool):
    own = ("--max-num-seqs", "1024")
    found = planned(small(tmp_path, size, **QWEN3[size]), "--box", box, "--context", context, *own, *more)
    token = found["kv"]["bytes_per_token"]
    assert found["kv"]["low_tokens"] * token / GIB <= pool <= found["kv"]["high_tokens"] * token / GIB


@pytest.mark.parametrize(
    ("size", "box", "context", "fits"),
    [("8b", "1x-rtx-4090", "16384", True), ("4b", "1x-rtx-4080", "16384", True), ("14b", "1x-rtx-4090", "8192", False),
     ("14b", "1x-rtx-5090", "8192", False), ("8b", "1x-rtx-4080", "8192", False), ("8b", "1x-rtx-5090", "40960", True)],
)  # fmt: skip
def test_small_models_fit_small_cards_when_their_weights_leave_room(tmp_path, size, box, context, fits):
    found = planned(small(tmp_path, size, **QWEN3[size]), "--box", box, "--context", context, "--kv-dtype", "bf16")
    assert (found["objections"] == []) is fits, found["objections"]


def test_what_is_asked_for_is_planned_and_rendered(tmp_path):
    model = small(tmp_path, "8b", **QWEN3["8b"])
    asked = ("--max-num-seqs", "8", "--max-num-batched-tokens", "2048")
    few, own = (planned(model, "--box", "1x-rtx-4090", "--context", "8192", *more) for more in (asked, ()))
    assert few["kv"]["low_tokens"] > own["kv"]["low_tokens"]
    words = ["render", model, "--box", "1x-rtx-4090", "--context", "8192", "--engine", "vllm", *asked]
    script = CliRunner().invoke(cli, words).stdout
    assert "--max-num-seqs 8" in " ".join(script.split())
    assert "--max-num-batched-tokens 2048" in " ".join(script.split())


def test_experts_in_mxfp4_grow_to_the_widths_that_kernels_take():
    from upright.facts import catalog
    from upright.models.deriving.catalogue_models import records

    model = records(catalog.model("gpt-oss-120b"))[0]
    (rank,) = rank_weights(model, tensor=1, padded=True)
    assert 64.3 <= (rank.bytes + rank.padding.bytes) / GIB <= 66.5, "66.0 by Marlin, 64.4 by Triton"
    assert rank_weights(model, tensor=1)[0].padding.bytes == 0, "of an engine that pads nothing"

"""Real metrics of the engines, read by the same names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upright.base.errors import EndpointError
from upright.base.units import GIB
from upright.serving.endpoint.metrics import Metrics, read_metrics

RECORDED = Path(__file__).parents[3] / "recordings/metrics"

# https://github.com/vllm-project/production-stack/issues/318 (vLLM 0.8.1)
VLLM_0_8 = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="Qwen/Qwen2.5-Coder-32B-Instruct"} 2.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="Qwen/Qwen2.5-Coder-32B-Instruct"} 0.25
"""
# https://github.com/vllm-project/vllm/pull/24049 (two replicas, speculation)
VLLM_REPLICAS = """
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="Qwen3-0.6B"} 10
vllm:spec_decode_num_drafts_total{engine="1",model_name="Qwen3-0.6B"} 10
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="Qwen3-0.6B"} 20
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="Qwen3-0.6B"} 20
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="Qwen3-0.6B"} 9
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="Qwen3-0.6B"} 11
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="Qwen3-0.6B",position="1"} 2
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="Qwen3-0.6B",position="0"} 7
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="Qwen3-0.6B",position="0"} 8
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="Qwen3-0.6B",position="1"} 3
"""
# https://github.com/smg-project/smg/pull/813 (SGLang behind its gateway)
SGLANG_GATEWAY = """
# TYPE sglang_num_running_reqs gauge
sglang_num_running_reqs{model_name="m",tp_rank="0",pp_rank="0"} 4
sglang_num_running_reqs{model_name="m",tp_rank="1",pp_rank="0"} 4
"""

# As SGLang 0.5.23 names them with --dp 3 --enable-dp-attention --tp 12 --ep 12: `tp_rank` counts through all replicas,
# and each is told by its first rank; one figure comes from every rank.
SGLANG_DP_ATTENTION = """
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0
sglang:num_running_reqs{dp_rank="1",engine_type="unified",model_name="m",moe_ep_rank="4",pp_rank="0",tp_rank="4"} 5
sglang:num_running_reqs{dp_rank="2",engine_type="unified",model_name="m",moe_ep_rank="10",pp_rank="0",tp_rank="10"} 70
sglang:num_running_reqs{dp_rank="2",engine_type="unified",model_name="m",moe_ep_rank="8",pp_rank="0",tp_rank="8"} 7
# TYPE sglang:token_usage gauge
sglang:token_usage{dp_rank="0",engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.1
sglang:token_usage{dp_rank="1",engine_type="unified",model_name="m",moe_ep_rank="4",pp_rank="0",tp_rank="4"} 0.9
# TYPE sglang:graph_memory_usage_gb gauge
sglang:graph_memory_usage_gb{dp_rank="0",phase="prefill",tp_rank="0"} 1
sglang:graph_memory_usage_gb{dp_rank="0",phase="decode",tp_rank="0"} 2
sglang:graph_memory_usage_gb{dp_rank="1",phase="prefill",tp_rank="4"} 1
sglang:graph_memory_usage_gb{dp_rank="1",phase="decode",tp_rank="4"} 2
"""


def recorded(name: str) -> Metrics:
    return read_metrics((RECORDED / name).read_text())


def test_vllm():
    seen = recorded("vllm-0.32.0.txt")
    assert (seen.running, seen.waiting, seen.kv_usage, seen.preemptions) == (0, 0, 0, 0)
    assert (seen.prompt_tokens, seen.cached_tokens, seen.computed_tokens, seen.generation_tokens) == (35, 0, 35, 3)
    assert (seen.kv_tokens, seen.kv_blocks, seen.kv_block_tokens) == (4224, 264, 16)
    assert seen.finished == 1
    assert (seen.drafts, seen.acceptance, seen.accepted_at) == (None, None, None), "no speculation, no figure"


def test_sglang():
    seen = recorded("sglang-0.5.23.txt")
    assert (seen.running, seen.waiting, seen.kv_usage, seen.preemptions) == (3, 2, 0.41, 4)
    assert (seen.prompt_tokens, seen.cached_tokens, seen.computed_tokens) == (1300, 1024, 276)
    assert (seen.generation_tokens, seen.finished) == (400, 2)
    assert (seen.kv_tokens, seen.kv_blocks, seen.kv_block_tokens) == (51210, 800, 64)
    assert (seen.accept_length, seen.drafts) == (2.61, 130)
    assert (seen.weights_bytes, seen.graphs_bytes) == (72.33 * GIB, pytest.approx(2.01 * GIB))


def test_llama_cpp():
    seen = recorded("llama.cpp-b11669.txt")
    assert (seen.running, seen.waiting, seen.kv_usage) == (0, 0, None), "it does not say how full its cache is"
    assert seen.computed_tokens is not None
    assert seen.cached_tokens is not None
    assert seen.prompt_tokens == seen.computed_tokens + seen.cached_tokens
    assert seen.generation_tokens is not None
    assert seen.generation_tokens > 3
    assert seen.generation_seconds is not None


def test_older_names_and_other_prefixes():
    old = read_metrics(VLLM_0_8)
    assert (old.running, old.kv_usage) == (2, 0.25)
    assert read_metrics(SGLANG_GATEWAY).running == 4, "ranks repeat each other"


def test_replicas_add_up_and_positions_are_in_order():
    seen = read_metrics(VLLM_REPLICAS)
    assert (seen.drafts, seen.draft_tokens, seen.accepted_tokens) == (20, 40, 20)
    assert seen.accepted_at == (15, 5)
    assert seen.acceptance == 0.5
    assert seen.acceptance_at == (0.75, 0.25)


def test_replicas_of_sglang_without_a_rank_of_their_own():
    seen = read_metrics(SGLANG_DP_ATTENTION)
    assert seen.running == 0 + 5 + 7
    assert seen.kv_usage == 0.9
    assert seen.graphs_bytes == 3 * GIB, "on one rank"


def test_an_interval():
    before = read_metrics(VLLM_REPLICAS)
    after = read_metrics(VLLM_REPLICAS.replace('position="0"} 7', 'position="0"} 10').replace("} 9", "} 12"))
    grown = after.since(before)
    assert (grown.accepted_tokens, grown.accepted_at, grown.drafts) == (3, (3, 0), 0)
    assert before.since(after).accepted_tokens is None, "the engine was started again in between"
    assert Metrics(running=5).since(Metrics(running=2)).running == 5


def test_what_is_not_there_is_none():
    assert read_metrics("") == Metrics()
    assert read_metrics('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0').kv_tokens is None
    assert read_metrics("sglang:token_usage NaN").kv_usage is None


@pytest.mark.parametrize("text", ["<html>404</html>", "vllm:num_requests_running{ 3", "vllm:x{a=b} 1"])
def test_what_is_no_metrics_is_said(text: str):
    with pytest.raises(EndpointError, match="not Prometheus text"):
        read_metrics(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str):
    with suppress(EndpointError):
        read_metrics(text)

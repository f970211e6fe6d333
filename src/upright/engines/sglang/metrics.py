"""SGLang's metrics, 0.4 to 0.5.23: metrics_collector.py. Its gateway writes `_` for `:`."""

from __future__ import annotations

from upright.base.units import GIB
from upright.engines.facets.metrics import MetricNames

METRICS = MetricNames(
    title="SGLang",
    prefix="sglang:",
    written={"sglang_": "sglang:"},
    fields={
        "running": ("sglang:num_running_reqs",),
        "waiting": ("sglang:num_queue_reqs",),
        "kv_usage": ("sglang:token_usage",),
        "kv_tokens": ("sglang:max_total_num_tokens",),
        "kv_blocks": ("sglang:num_pages",),
        "kv_block_tokens": ("sglang:page_size",),
        "prompt_tokens": ("sglang:prompt_tokens_total",),
        "cached_tokens": ("sglang:cached_tokens_total",),
        "generation_tokens": ("sglang:generation_tokens_total",),
        "preemptions": ("sglang:num_retracted_requests_total",),
        "finished": ("sglang:num_requests_total",),
        "drafts": ("sglang:spec_verify_calls_total",),
        "accept_length": ("sglang:spec_accept_length",),
        "accept_rate": ("sglang:spec_accept_rate",),
        "first_tokens": ("sglang:time_to_first_token_seconds_count",),
        "first_token_seconds": ("sglang:time_to_first_token_seconds_sum",),
        "weights_bytes": ("sglang:weight_memory_usage_gb",),
        "kv_bytes": ("sglang:kv_cache_memory_usage_gb",),
        "graphs_bytes": ("sglang:graph_memory_usage_gb",),
    },
    histograms={
        "first_token": ("sglang:time_to_first_token_seconds",),
        "token": ("sglang:inter_token_latency_seconds",),
        "request": ("sglang:e2e_request_latency_seconds",),
        "queue": ("sglang:queue_time_seconds",),
    },
    steps=("sglang:realtime_tokens_total",),
    steps_are="tokens",
    responses={"sglang:http_responses_total": "status_code"},
    # Guard: what SGLang calls gb is 2**30 bytes.
    units={
        "sglang:weight_memory_usage_gb": GIB,
        "sglang:kv_cache_memory_usage_gb": GIB,
        "sglang:graph_memory_usage_gb": GIB,
    },
    ranks_repeat=True,
)

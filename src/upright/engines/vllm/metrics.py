"""vLLM's metrics, 0.8 to 0.32: v1/metrics/loggers.py and v1/spec_decode/metrics.py. Gauges were renamed in 0.10."""

from __future__ import annotations

from upright.engines.facets.metrics import Labelled, MetricNames

METRICS = MetricNames(
    title="vLLM",
    prefix="vllm:",
    fields={
        "running": ("vllm:num_requests_running",),
        "waiting": ("vllm:num_requests_waiting",),
        "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "prompt_tokens": ("vllm:prompt_tokens_total",),
        "cached_tokens": (
            "vllm:prompt_tokens_cached_total",
            "vllm:prefix_cache_hits_total",
            "vllm:gpu_prefix_cache_hits_total",
        ),
        "generation_tokens": ("vllm:generation_tokens_total",),
        "preemptions": ("vllm:num_preemptions_total",),
        "finished": ("vllm:request_success_total",),
        "prompt_seconds": ("vllm:request_prefill_time_seconds_sum",),
        "generation_seconds": ("vllm:request_decode_time_seconds_sum",),
        "drafts": ("vllm:spec_decode_num_drafts_total",),
        "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
        "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
        "first_tokens": ("vllm:time_to_first_token_seconds_count",),
        "first_token_seconds": ("vllm:time_to_first_token_seconds_sum",),
    },
    histograms={
        "first_token": ("vllm:time_to_first_token_seconds",),
        "token": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        "request": ("vllm:e2e_request_latency_seconds",),
        "queue": ("vllm:request_queue_time_seconds",),
    },
    steps=("vllm:iteration_tokens_total_count",),
    responses={"http_requests_total": "status"},  # it writes 5xx for all of them
    positions=("vllm:spec_decode_num_accepted_tokens_per_pos_total",),
    labelled=Labelled(
        "vllm:cache_config_info",
        {
            "kv_tokens": "kv_cache_size_tokens",
            "kv_blocks": "num_gpu_blocks",
            "kv_bytes": "kv_cache_memory_bytes",  # only where a person set it
        },
        {"kv_block_tokens": "block_size"},
    ),
)

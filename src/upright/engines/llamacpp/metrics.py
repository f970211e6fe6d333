"""llama-server's metrics: llama.cpp b11669 and ik_llama.cpp 8337e4cd, server.cpp."""

from __future__ import annotations

from upright.engines.facets.metrics import MetricNames

METRICS = MetricNames(
    title="llama.cpp",
    prefix="llamacpp:",
    fields={
        "running": ("llamacpp:requests_processing",),
        "waiting": ("llamacpp:requests_deferred",),
        "kv_usage": ("llamacpp:kv_cache_usage_ratio",),
        "cached_tokens": ("llamacpp:prompt_tokens_cached_total",),
        "computed_tokens": ("llamacpp:prompt_tokens_total",),
        "generation_tokens": ("llamacpp:tokens_predicted_total",),
        "prompt_seconds": ("llamacpp:prompt_seconds_total",),
        "generation_seconds": ("llamacpp:tokens_predicted_seconds_total",),
        "drafts": ("llamacpp:spec_decode_num_drafts_total",),
        "draft_tokens": ("llamacpp:spec_decode_num_draft_tokens_total",),
        "accepted_tokens": ("llamacpp:spec_decode_num_accepted_tokens_total",),
    },
    # A request's tokens are counted when it ends; this moves before (b11669 tools/server/server-context.cpp
    # `on_decoded`).
    steps=("llamacpp:n_decode_total",),
    positions=("llamacpp:spec_decode_num_accepted_tokens_per_pos_total",),
    remarks={
        "kv_usage_ratio": "llama.cpp does not.",
        "generation_tokens_per_second": "llama.cpp counts the tokens of a request when it ends, the others as they "
        "come.",
    },
)

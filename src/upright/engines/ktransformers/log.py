"""KTransformers' log: SGLang's, with lines of kt-kernel between them."""

from __future__ import annotations

from dataclasses import replace

from upright.engines.sglang.log import LOG as SGLANG_LOG

LOG = replace(
    SGLANG_LOG,
    tracker="https://github.com/kvcache-ai/ktransformers/issues/new/choose",
    shape=r"\[NativeMoEWrapper Layer \d+\]|\bCreating AMX_\w*MOE_TP\b|\bkt_kernel\b|\bkt_weight_path='",
    hints=r"\bkt[_-](?:kernel|weight|num|method|cpuinfer|threadpool)\w*|(?<![\w-])--(?:kt-[\w-]+|optimize_config_path"
    r"|cpu_infer|gguf_path)\b|\b[Cc][Pp][Uu][Ii]nfer\w*|\bKTMoE\w*|\bbalance_serve\b|\bAMX\w*_MOE\b|\boperators[/\\]experts\.py",
    fork_of="sglang",
    phases=((r"\[NativeMoEWrapper Layer \d+\]", "weights"), *SGLANG_LOG.phases),
)

"""ik_llama.cpp's log: as llama.cpp's of 2024, with lines of its own that tell the two apart."""

from __future__ import annotations

from dataclasses import replace

from upright.engines.llamacpp.log import LOG as ORIGIN

LOG = replace(
    ORIGIN,
    tracker="https://github.com/ikawrakow/ik_llama.cpp/issues/new/choose",
    shape=r"/ik_llama\.cpp/|^INFO \[ +\w+\] .*tid=\"|^llm_load_tensors:|\bmla_attn\s+=",
    hints=r"(?<![\w-])(?:-mla|-fmoe|-amb|-rtr|-ser|-muge|-khad|--run-time-repack|--fused-moe|--merge-qkv)(?![\w-])"
    r"|\biqk_\w+|\bik_\w+[/\\](?:src|ggml|common|examples|build)\b|\bIQ\d_K[LST]*\b|\bIQ\d_KT\b|\bQ\d\w*_[Rr][48]\b",
    fork_of="llama.cpp",
    silent_hint=None,
)

"""ik_llama.cpp's log: as llama.cpp's of 2024, with lines of its own that tell the two apart."""

from __future__ import annotations

from dataclasses import replace

from upright.engines.llamacpp.log import LOG as ORIGIN

LOG = replace(
    ORIGIN,
    tracker="https://github.com/ikawrakow/ik_llama.cpp/issues/new/choose",
    shape=r"/ik_llama\.cpp/|^INFO \[ +\w+\] .*tid=\"|^llm_load_tensors:|\bmla_attn\s+=",
    silent_hint=None,
)

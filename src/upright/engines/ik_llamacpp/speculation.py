"""Speculative decoding in ik_llama.cpp: a draft model, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from upright.engines.llamacpp.speculation import SPECULATION as ORIGIN

SPECULATION = replace(ORIGIN, methods=("draft",), gate=None)

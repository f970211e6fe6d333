"""Where ik_llama.cpp's llama-server is looked for: under its origin's name."""

from __future__ import annotations

from dataclasses import replace

from upright.engines.llamacpp.finding import FINDING as ORIGIN

# Guard: both forks call themselves llama-server; only ik_llama.cpp has MLA modes.
# https://github.com/ikawrakow/ik_llama.cpp/pull/188
FINDING = replace(ORIGIN, places=("$HOME/ik_llama.cpp/build/bin",), only_flag="-mla")

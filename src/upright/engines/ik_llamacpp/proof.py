"""ik_llama.cpp proved without weights: its own parser, and its dry run, whose exit code says nothing."""

from __future__ import annotations

from upright.engines.facets.proof import DryRun, EngineProof
from upright.engines.llamacpp.proof import PARSER

PROOF = EngineProof(
    parser=PARSER,
    rehearsal=DryRun(
        words=("--dry-run",),
        without=("--api-key-file",),
        not_proved=("-mla 2 and 3: a dry run does not compute wkv_b, which they keep beside the cache",),
    ),
)

"""llama.cpp proved without weights: its own parser, its allocator, and a start on a file of holes."""

from __future__ import annotations

from upright.engines.facets.proof import Allocator, EngineProof, HollowFile, ParserOfProgram
from upright.facts.records.recipe import Setting

PARSER = ParserOfProgram(
    swaps={r"=CUDA\d+": "=CPU"},
    swapped_remark="Names of CUDA buffers were judged as CPU's: only a CUDA build knows its own.",
)
ALLOCATOR = Allocator(
    tool="llama-fit-params",
    takes=(
        "--ctx-size", "--parallel", "--cache-type-k", "--cache-type-v", "--n-gpu-layers", "--flash-attn",
        "--batch-size", "--ubatch-size", "--override-tensor",
    ),
    # Without repacking every weight is counted in its own column.
    words=("--no-repack", "-fitp", "on"),
    # Guard: the table names only what its backends call devices; CPU_REPACK stands in no column (llama.cpp b11669).
    row=r"^(?P<device>[A-Za-z]+\d*) +(?P<model>\d+) +(?P<context>\d+) +(?P<compute>\d+)\s*$",
    terms={"model": "weights", "context": "kv_cache", "compute": "compute"},
)  # fmt: skip
PROOF = EngineProof(
    parser=PARSER,
    rehearsal=HollowFile(
        Setting(name="--no-warmup", reason="the file is a hole; warming up would read all of it"), ALLOCATOR
    ),
)

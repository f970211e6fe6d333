"""The scratch memory of one graph, by architecture, ubatch and context: llama.cpp's compute buffer, and others' kinds.

The formula was found by asking the engine's own allocator (`llama-fit-params -fitp on`, llama.cpp b11669) about a
full-size Kimi K2 in 188 settings; tests/accuracy asks it again. It is exact but for a bump near 65,536 tokens.
"""

from __future__ import annotations

from typing import NamedTuple

from upright.engines.facets.spread import PromptScratch
from upright.facts.records.model import Architecture, GqaAttention, MlaAttention

F32, F16 = 4, 2
_HIDDEN_COPIES = 5
# llama.cpp lays a context out in cells of 256 tokens.
CELL_TOKENS = 256
# How far the allocator was seen from the formula, plus what other builds and backends may add.
COMPUTE_BAND = (0.90, 1.25)


class Buffer(NamedTuple):
    """Bytes of scratch memory, and how they came about."""

    bytes: int
    why: str

    @property
    def low_bytes(self) -> int:
        return int(self.bytes * COMPUTE_BAND[0])

    @property
    def high_bytes(self) -> int:
        return int(self.bytes * COMPUTE_BAND[1])


def padded_context(tokens: int) -> int:
    return -(-tokens // CELL_TOKENS) * CELL_TOKENS


def compute_buffer(
    architecture: Architecture,
    *,
    ubatch_tokens: int,
    context_tokens: int,
    flash_attention: bool = True,
    scratch: PromptScratch | None = None,
) -> Buffer:
    """Scratch of one graph. `context_tokens` is the context of one slot: the mask covers one sequence's cells."""
    kept, cells = scratch or PromptScratch(), padded_context(context_tokens)
    hidden = f"20 B x {architecture.hidden_size:,} hidden + 2 B x {cells:,} mask"
    outputs = _HIDDEN_COPIES * F32 * architecture.hidden_size
    if kept.logits:
        outputs += F32 * architecture.vocabulary_size
        hidden = f"4 B x {architecture.vocabulary_size:,} logits + {hidden}"
    with_flash = outputs + F16 * cells
    if flash_attention:
        spelt = _latent_scores(architecture, ubatch_tokens, cells) if kept.latent_scores else 0
        words = f" + {spelt:,} B of scores, keys and values of latent attention" if spelt else ""
        return Buffer(ubatch_tokens * with_flash + spelt, f"{ubatch_tokens} tokens x ({hidden}){words}")
    heads, widths = _widest(architecture)
    scores = F32 * heads * cells + F32 * cells + F32 * (heads * widths + architecture.hidden_size)
    return Buffer(
        ubatch_tokens * max(with_flash, scores),
        f"{ubatch_tokens} tokens x (4 B x {heads} heads x {cells:,} scores, no flash attention)",
    )


def _latent_scores(architecture: Architecture, tokens: int, cells: int) -> int:
    """Of the layer with the most: scores of each head, and a key and a value of each head for every cell."""
    return max(
        (
            F16 * kind.heads * cells * (tokens + (kind.nope_head_dim or 0) + (kind.value_head_dim or 0))
            for kind in architecture.attention
            if isinstance(kind, MlaAttention)
        ),
        default=0,
    )


def _widest(architecture: Architecture) -> tuple[int, int]:
    """Heads, and the widths of query, rotated query and output of one head, of the widest attention."""
    head_widths = [(1, architecture.hidden_size)]
    for kind in architecture.attention:
        if isinstance(kind, MlaAttention):
            head_widths.append((kind.heads, 2 * (kind.kv_lora_rank + kind.rope_head_dim) + kind.kv_lora_rank))
        elif isinstance(kind, GqaAttention):
            head_widths.append((kind.heads, 2 * kind.key_head_dim + kind.value_head_dim))
    return max(head_widths, key=lambda pair: pair[0] * pair[1])

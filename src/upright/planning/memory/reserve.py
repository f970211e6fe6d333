"""What an engine takes of a GPU beside weights and cache, from its causes: row by row of the catalogue, added up.

The peak of a start is the larger of two that follow each other: the forward pass of as many tokens as are computed at
once, and the sampler over all sequences that may run. CUDA graphs are one for each layer and captured size. So the
reserve shrinks with the model, the batch and the card, and none of it is a share of the card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from upright.base.units import GIB, format_memory
from upright.facts.catalog.rows.memory import Band, End, OverheadKind, OverheadRow
from upright.facts.records.model import Architecture, CompressedAttention, LinearAttention, MlaAttention
from upright.facts.records.plan import Parallel

BF16 = 2
# Rows of hidden size that live beside a layer's widest activation: residual, input, output, rotated queries and keys.
_HIDDEN_ROWS = 4.25
# gate and up, and their product (vllm/model_executor/layers/activation.py, SiluAndMul).
_WIDE_ROWS = 3
_ENDS: tuple[End, ...] = ("low", "best", "high")


class ReserveCase(NamedTuple):
    """What the reserve depends on."""

    architecture: Architecture
    parallel: Parallel
    batched_tokens: int
    sequences: int
    """Requests at once that the recipe asks the engine for."""
    draft: bool


def kinds_of(architecture: Architecture, quantisation: str | None = None) -> frozenset[OverheadKind]:
    """What rows tell models apart by."""
    kinds: set[OverheadKind] = {"experts" if architecture.experts else "dense"}
    if "NVFP4" in (quantisation or ""):
        kinds.add("nvfp4")
    for kind in architecture.attention:
        if isinstance(kind, LinearAttention):
            kinds.add("recurrent")
        elif isinstance(kind, CompressedAttention) or (isinstance(kind, MlaAttention) and kind.sparse):
            kinds.add("sparse-latent")
        elif isinstance(kind, MlaAttention):
            kinds.add("latent")
    return frozenset(kinds)


def with_causes(rows: Mapping[str, OverheadRow], case: ReserveCase) -> dict[str, OverheadRow]:
    """The rows, and `runtime` and `graphs` out of their causes where no start of this very model told them."""
    summed = dict(rows)
    if "runtime" not in rows and "context" in rows:
        summed["runtime"] = _runtime(rows, case)
    if "graphs" not in rows and "captures" in rows:
        summed["graphs"] = _graphs(rows["captures"], case)
    return summed


def captured_sizes(most: int) -> int:
    """Batch sizes up to this one that vLLM captures: 1, 2, 4, by eights to 256, by sixteens beyond."""
    return sum(size <= most for size in (1, 2, 4)) + min(most, 256) // 8 + max(0, most - 256) // 16


def _runtime(rows: Mapping[str, OverheadRow], case: ReserveCase) -> OverheadRow:
    parts = [rows["context"].gib or Band(low=0, best=0, high=0)]
    words = ["CUDA context"]
    if case.parallel.ranks > 1 and "collectives" in rows:
        parts.append(rows["collectives"].gib or parts[0])
        words.append(f"buffers of {case.parallel.ranks} ranks")
    if "workspace" in rows:
        parts.append(rows["workspace"].gib or parts[0])
        words.append(rows["workspace"].why)
    forward, experts = _forward_bytes(case), _expert_bytes(case)
    vocabulary = case.architecture.vocabulary_size
    passed, sampled = rows["activations"].share, rows["sampler"].each_bytes
    assert passed is not None
    assert sampled is not None
    peak = {
        end: max(forward * getattr(passed, end), getattr(sampled, end) * case.sequences * vocabulary)
        + experts * getattr(passed, end)
        for end in _ENDS
    }
    parts.append(Band(**{end: bytes_ / GIB for end, bytes_ in peak.items()}))
    words.append(
        f"{format_memory(int(forward + experts))} of activations of {case.batched_tokens:,} tokens, or the sampler of "
        f"{case.sequences:,} sequences over {vocabulary:,} words"
    )
    named = [rows[term] for term in ("context", "activations", "sampler", "collectives", "workspace") if term in rows]
    return _row(rows["context"], "runtime", _sum(parts), "; ".join(words), named)


def _graphs(row: OverheadRow, case: ReserveCase) -> OverheadRow:
    each, fixed = row.each_bytes, row.gib or Band(low=0, best=0, high=0)
    assert each is not None
    layers = case.architecture.layers // case.parallel.pipeline
    captures = _captures(case.sequences)
    drafted = 1 + 1 / 3 if case.draft else 1
    graphs = {end: drafted * getattr(each, end) * layers * captures / GIB for end in _ENDS}
    why = f"{row.why}: {layers} layers x {captures} captured sizes of {case.sequences:,} sequences"
    return _row(row, "graphs", _sum([fixed, Band(**graphs)]), why, [row])


def _captures(sequences: int) -> int:
    """Of batches with prompts, twice the sequences at most, and of batches without."""
    return captured_sizes(min(2 * sequences, 512)) + captured_sizes(min(sequences, 512))


def _forward_bytes(case: ReserveCase) -> float:
    """The widest layer's activations beside the experts'."""
    model, tensor = case.architecture, case.parallel.tensor
    wide = 0 if model.experts and not model.experts.first_moe_layer else model.intermediate_size or 0
    row = _WIDE_ROWS * wide / tensor + _HIDDEN_ROWS * model.hidden_size
    return case.batched_tokens * row * BF16


def _expert_bytes(case: ReserveCase) -> float:
    """Rows of every expert that a token visits: into it, and out of it (fused_moe.py, intermediate caches)."""
    experts = case.architecture.experts
    if experts is None:
        return 0.0
    inside = (experts.intermediate_size or case.architecture.hidden_size) / case.parallel.tensor
    row = max(2 * inside, case.architecture.hidden_size) + inside
    return case.batched_tokens * experts.active * row * BF16


def _sum(parts: list[Band]) -> Band:
    """Causes that know nothing of each other."""
    best = sum(part.best for part in parts)
    below = sum((part.best - part.low) ** 2 for part in parts) ** 0.5
    above = sum((part.high - part.best) ** 2 for part in parts) ** 0.5
    return Band(low=max(0.0, best - below), best=best, high=best + above)


def _row(like: OverheadRow, term: str, band: Band, why: str, named: list[OverheadRow]) -> OverheadRow:
    others = ", ".join(row.id for row in named[1:])
    update = {"term": term, "gib": band, "each_bytes": None, "why": f"{why}{f' (with {others})' if others else ''}"}
    return like.model_copy(update=update)

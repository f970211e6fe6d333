"""The plan's KvCache record: figures where the model is understood, bounds where it is not."""

from __future__ import annotations

from upright.facts.records.model import Model
from upright.facts.records.plan import KvCache
from upright.planning.memory.kvcache import CacheShape, bounded_shapes
from upright.planning.memory.layouts import Storage


def cache_record(
    model: Model,
    dtype: str,
    shape: CacheShape,
    storage: Storage,
    *,
    capacity_tokens: int,
    low_tokens: int,
    high_tokens: int,
    planned_tokens: int,
    copies: int = 1,
) -> KvCache:
    figure: int | float | None = shape.figure
    low, high, formula = figure, figure, shape.formula
    if model.not_understood and not model.architecture.attention_is_known:
        least, most = bounded_shapes(model.architecture, dtype, storage=storage)
        figure, low, high = None, least.figure, most.figure if most else None
        formula = f"not understood: {', '.join(model.not_understood)}; at most {most.formula if most else 'not known'}"
    return KvCache(
        dtype=dtype,
        bytes_per_token=figure,
        low_bytes_per_token=low,
        high_bytes_per_token=high,
        bytes_per_sequence=shape.bounded_bytes,
        state_bytes_per_sequence=shape.bytes_per_state,
        window_bytes_per_sequence=shape.window_bytes,
        states_per_sequence=shape.states_kept if shape.bytes_per_state else 1,
        copies=copies,
        capacity_tokens=capacity_tokens,
        low_tokens=low_tokens,
        high_tokens=high_tokens,
        planned_tokens=planned_tokens,
        formula=formula,
    )

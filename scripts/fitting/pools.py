"""Published pools -> overheads, and how far a prediction is off a pool that the fit has not seen.

pool = fraction x memory - weights - runtime [- draft] [- graphs, where the profiler counts them]. Weights and bytes a
token are exact, so what is left of a published pool is the overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from upright.base.units import GIB
from upright.facts import catalog
from upright.facts.catalog.rows.memory import PoolRow
from upright.models.deriving.catalogue_models import records
from upright.planning.memory.kvcache import cache_shape, rank_share
from upright.planning.memory.layouts import Storage
from upright.planning.memory.overhead import driver_bytes
from upright.planning.memory.weights import rank_weights

DRAFT_LAYERS = 1


@dataclass(frozen=True)
class Fit:
    """GiB a GPU of each term."""

    runtime: float
    draft: float
    graphs: float
    graphs_with_draft: float

    def residual(self, pool: PoolRow) -> float:
        """What the fit says stands between memory and pool, weights aside."""
        drafted = pool.draft != "none"
        counted = (self.graphs_with_draft if drafted else self.graphs) if pool.graphs_counted else 0.0
        return self.runtime + (self.draft if drafted else 0.0) + counted


@dataclass(frozen=True)
class Miss:
    """One published pool against the prediction of a fit that has not seen it."""

    pool: PoolRow
    held_out: str
    predicted_tokens: int

    @property
    def error(self) -> float:
        return self.predicted_tokens / self.pool.tokens - 1


def pools() -> tuple[PoolRow, ...]:
    return tuple(row for row in catalog.rows("pools").values() if isinstance(row, PoolRow))


def residual_gib(pool: PoolRow) -> float:
    """Memory of each GPU that is neither weights nor cache."""
    offered, per_token = _terms(pool)
    return (offered - pool.tokens * per_token) / GIB


def fit(rows: Sequence[PoolRow]) -> Fit:
    """Means over images of means over rows. A term that no row tells is half or twice its sibling."""
    runtime = _mean(rows, drafted=False, counted=False)
    with_draft = _mean(rows, drafted=True, counted=False)
    counted = _mean(rows, drafted=False, counted=True)
    both = _mean(rows, drafted=True, counted=True)
    if runtime is None:
        runtime = (counted or 0.0) / 2
    draft = with_draft - runtime if with_draft is not None else 0.0
    graphs = counted - runtime if counted is not None else None
    graphs_with_draft = both - runtime - draft if both is not None else None
    if graphs is None:
        graphs = (graphs_with_draft or 0.0) / 2
    return Fit(runtime, draft, graphs, graphs_with_draft if graphs_with_draft is not None else 2 * graphs)


def predict(pool: PoolRow, using: Fit) -> int:
    """Tokens of the pool, by the fit."""
    offered, per_token = _terms(pool)
    return int((offered - using.residual(pool) * GIB) / per_token)


def leave_out(rows: Sequence[PoolRow], key: Callable[[PoolRow], str]) -> tuple[Miss, ...]:
    """Every row predicted by a fit on the rows with another key."""
    misses = []
    for held_out in dict.fromkeys(key(row) for row in rows):
        using = fit([row for row in rows if key(row) != held_out])
        misses += [Miss(row, held_out, predict(row, using)) for row in rows if key(row) == held_out]
    return tuple(misses)


def by_image(pool: PoolRow) -> str:
    return pool.image


def by_setting(pool: PoolRow) -> str:
    """Utilisation x speculation, within an image."""
    counted = " counted" if pool.graphs_counted else ""
    return f"{pool.image} {pool.memory_fraction} {pool.draft}{counted}"


@cache
def _terms(pool: PoolRow) -> tuple[float, float]:
    """Bytes of one GPU left after weights, and bytes that a token of the pool takes there."""
    row, gpu = catalog.model(pool.model), catalog.gpu(pool.gpu)
    model = records(row)[0]
    weights = rank_weights(model, tensor=pool.tensor)[0]
    storage = Storage(pool.engine, capability=gpu.compute_capability)
    drafts = DRAFT_LAYERS if pool.draft != "none" else 0
    shape = cache_shape(model.architecture, pool.kv_dtype, storage=storage, draft_layers=drafts)
    per_token = shape.bytes_per_token * rank_share(shape, pool.tensor, pool.decode_context)
    offered = pool.memory_fraction * (gpu.memory_bytes - driver_bytes()) - weights.bytes - weights.absorbed_bytes
    return offered, float(per_token)


def _mean(rows: Iterable[PoolRow], *, drafted: bool, counted: bool) -> float | None:
    images: dict[str, list[float]] = {}
    for row in rows:
        if (row.draft != "none") == drafted and row.graphs_counted == counted:
            images.setdefault(row.image, []).append(residual_gib(row))
    return fmean(fmean(residuals) for residuals in images.values()) if images else None

"""What engines take beside weights and cache, and the published pools that tell."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from upright.base.units import GIB
from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.records.base import Basis, Part

End = Literal["low", "best", "high"]
OverheadKind = Literal["dense", "experts", "latent", "sparse-latent", "recurrent", "nvfp4"]


class Band(Part):
    """A figure and how far it may be off."""

    low: float
    """Lower end."""
    best: float
    """The figure to plan with."""
    high: float
    """Upper end."""


class OverheadRow(Row):
    """One term of memory on one device, for some versions of an engine."""

    engine: str
    """vllm, sglang, llama.cpp, ik_llama.cpp; `*` for all."""
    versions: VersionRange
    """Versions that it holds for."""
    term: Literal[
        "driver",
        "runtime",
        "graphs",
        "draft",
        "process",
        "upload",
        "pool-band",
        "context",
        "collectives",
        "activations",
        "sampler",
        "workspace",
        "captures",
        "scales",
    ]
    """The line of the ledger, the share of a pool that is not promised before calibration, or a cause of a line."""
    capability: VersionRange = "*"
    """Compute capabilities that it holds for."""
    draft: bool | None = None
    """Only with, or only without a draft model; None if that does not matter."""
    gib: Band | None = None
    """Memory on each device."""
    share: Band | None = None
    """Or a share of something, which `why` names."""
    each_bytes: Band | None = None
    """Or bytes of each of something, which `why` names."""
    kind: OverheadKind | None = None
    """Only of models that have this; None for all."""
    basis: Basis
    """measured, derived or assumed."""
    why: NonEmptyText
    """What it is made of."""
    pools: tuple[str, ...] = ()
    """Images of the pools that it was fitted on: a test fits it again."""
    models: tuple[str, ...] = ()
    """Models that it holds for, those that it was fitted on; empty for all."""
    adds_terms: bool = False
    """Of a pool-band: whether the bands of the terms come on top of the share."""

    def bytes(self, end: End) -> int:
        return int(getattr(self.gib, end) * GIB) if self.gib else 0


class PoolRow(Row):
    """A KV pool as an engine reported it at start."""

    date: str
    """When it was published."""
    image: str
    """The build, by date; rows of one image share everything that is not in this row."""
    engine: str
    """Which engine."""
    model: str
    """Row of the model; its native artifact."""
    gpu: str
    """Row of the GPU."""
    tensor: int
    """Ranks of tensor parallelism."""
    decode_context: int
    """Decode context parallel (DCP): ranks over which one copy of the KV cache is sharded."""
    draft: Literal["none", "eagle3"]
    """The draft model."""
    memory_fraction: float
    """gpu_memory_utilization."""
    graphs_counted: bool
    """Whether the profiler took CUDA graphs off the pool."""
    kv_dtype: str
    """Type of the cache."""
    tokens: Annotated[int, Field(gt=0)]
    """Tokens in the pool."""
    note: str | None = None
    """What else differs."""

    @field_validator("sources", mode="before")
    @classmethod
    def _one_source(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

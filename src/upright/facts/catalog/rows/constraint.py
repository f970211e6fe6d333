"""What must, must not or should be told an engine, and when: data that plans obey and recipes cannot break."""

from typing import Literal, Self

from pydantic import Field, model_validator

from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.catalog.rows.engine import Engine
from upright.facts.records.base import Part
from upright.facts.records.recipe import AttentionName, WeightFormat

Force = Literal["must", "must-not", "should", "should-not"]
FactName = Literal[
    "tensor", "pipeline", "decode_context", "data", "expert_parallel", "nodes", "memory_fraction", "cache_type",
    "backend", "expert_backend", "reasoning_parser", "tool_parser", "draft", "custom_all_reduce_off", "arguments",
    "variables", "expert_width_per_rank", "kv_replicas_left", "ranks_left", "index_top_k", "experts_left",
    "expert_format", "image", "architecture", "compute_capability",
]  # fmt: skip


class When(Part):
    """Where a constraint holds: every field that is given must fit. What is not known fits nothing."""

    versions: VersionRange = "*"
    """Versions of the engine."""
    compute_capability: VersionRange = "*"
    """GPU architectures: `>=12.0,<13`."""
    attention: tuple[AttentionName, ...] = ()
    """Any of these kinds of attention."""
    architectures: tuple[NonEmptyText, ...] = ()
    """Any of these classes, as config.json names them."""
    models: tuple[NonEmptyText, ...] = ()
    """Any of these rows of the catalogue."""
    artifacts: tuple[NonEmptyText, ...] = ()
    """Any of these repositories."""
    cache_types: tuple[NonEmptyText, ...] = ()
    """Any of these types of the KV cache."""
    formats: tuple[WeightFormat, ...] = ()
    """Any of these formats of the routed experts."""
    thinking: tuple[Literal["on", "off", "always", "never"], ...] = ()
    """Any of these habits of an artifact."""
    block: int | None = None
    """Weights that share a scale, for formats in blocks or groups."""
    backends: tuple[NonEmptyText, ...] = ()
    """Any of these attention backends."""
    more_than: dict[FactName, float] = Field(default_factory=dict)
    """Facts that must be larger than this: `{decode_context: 1}`."""
    unified_memory: bool | None = None
    """GPU and system share one memory, or do not."""
    gpus: bool | None = None
    """The box has GPUs, or none."""
    without_patch: str | None = None
    """Only for builds that do not carry this patch."""
    images: tuple[NonEmptyText, ...] = ()
    """Any of these rows of the catalogue's images."""
    upstream: bool = False
    """Only for upstream builds: no image of the community."""


class Demand(Part):
    """What a fact must be."""

    fact: FactName
    """Which."""
    one_of: tuple[str, ...] = ()
    """One of these; of a fact that is a set, any of them."""
    at_most: float | None = None
    """No more."""
    at_least: float | None = None
    """No less."""
    multiple_of: int | None = None
    """Divisible by this."""
    true: bool | None = None
    """True or false."""

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        asked = [bool(self.one_of), *(getattr(self, name) is not None for name in _TESTS)]
        if sum(asked) != 1:
            raise ValueError(f"give one of one_of, {', '.join(_TESTS)}")
        return self


_TESTS = ("at_most", "at_least", "multiple_of", "true")


class ConstraintRow(Row):
    """One thing that an engine does not stand, or stands only so."""

    engine: Engine
    """Which engine."""
    title: NonEmptyText
    """One line for people."""
    when: When = Field(default_factory=When)
    """Where it holds."""
    force: Force
    """must and must-not refuse; should and should-not warn."""
    demand: Demand
    """What is, or is not, to be."""
    about: NonEmptyText
    """What happens otherwise."""
    instead: NonEmptyText
    """What to do."""
    remedy: str | None = None
    """The same as words of `upright plan`, where words can say it."""
    unmeasured: bool = False
    """Whether what breaks it runs by kernels of which no speed is known, whatever else was measured there."""
    rows: tuple[NonEmptyText, ...] = ()
    """Rows of the catalogue that say the same: `compat/…`, `failures/…`."""
    broken_by: dict[str, str | int | float | bool | tuple[str, ...]]
    """A situation that breaks it, for its test: facts and circumstances by name."""

    @property
    def refuses(self) -> bool:
        return self.force in ("must", "must-not")

    @property
    def negative(self) -> bool:
        return self.force in ("must-not", "should-not")

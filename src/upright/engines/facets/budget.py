"""A GPU's memory -> what an engine may use of it, and what of the cache it keeps in which form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from upright.engines.memory_report import MemoryReport, Reading
    from upright.facts.records.plan import Plan


class Offered(NamedTuple):
    """What a rank may use of its GPU."""

    capacity_bytes: int
    why: str


class CacheForms(NamedTuple):
    """Forms of the cache that hang on silicon and builds."""

    sparse_latent: str | None = None
    """The type that sparse MLA starts with; None for the usual one."""
    fp8_latent_patch: str | None = None
    """The patch without which this engine's upstream may not read an fp8 cache of dense MLA; None if there is none."""


class CpuBuild(NamedTuple):
    """A build that keeps everything in system RAM, and is told how large its cache is."""

    is_build: Callable[[str | None], bool]
    """By the version."""
    block_tokens: int
    unused_blocks: int
    """Blocks that no request gets."""
    unused_words: str
    """What they are."""
    latent_types: tuple[str, ...]
    """Names of the cache types that its MLA backends read, the usual one first."""


class GpuShare(NamedTuple):
    """The engine takes a share of each GPU, and fills with cache what the rest leaves of it."""

    option: str
    """As the engine spells it."""
    highest: float
    """What people run it with; more is asking for trouble."""
    start: Callable[[int, int], tuple[float, str]]
    """Bytes that the driver reports (0 if unknown) and ranks -> the share to start with, and where it comes from."""
    offered: Callable[[int, float, str, int], Offered]
    """Bytes that CUDA shows, the share, its origin, and bytes that are gone before loading."""
    graphs_counted: Callable[[str | None], bool]
    """Whether a version's pool is what is left after CUDA graphs; of an unknown version as of a new one."""
    runtime: Callable[[Plan, MemoryReport, str], Reading | None]
    """A start's log -> what is gone on a GPU beside weights, cache and graphs."""
    own_sequences: Callable[[int, str | None], int] = lambda _bytes, _capability: 256
    """Bytes that the driver reports and compute capability -> requests that the engine takes at once by itself."""
    padded_experts: frozenset[str] = frozenset()
    """Formats of weights whose experts grow to the widths that kernels take."""
    block_tokens: int = 1
    """Tokens that the cache is given out in."""
    cache: CacheForms = CacheForms()
    cpu_build: CpuBuild | None = None


class Margin(NamedTuple):
    """The engine takes what it is told to place; a margin of each GPU stays free."""

    bytes: int


Budget = GpuShare | Margin

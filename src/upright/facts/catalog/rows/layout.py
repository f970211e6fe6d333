"""How engines lay out the cache: bytes of one entry, by piece, cache type and silicon."""

from typing import Literal

from upright.facts.catalog import versions
from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange

Piece = Literal[
    "latent", "sparse-latent", "index", "block-index", "compressed-v4", "compressed-v41", "compressor", "state",
    "window", "division", "pages-v4", "pages-v41", "tables",
]  # fmt: skip


class LayoutRow(Row):
    """One piece of a layer's cache in one engine. A piece without a row is stored in the cache type's own values."""

    about: NonEmptyText
    """What it is, in a sentence."""
    engine: NonEmptyText
    """Which engine; `*` for all that have no row of their own."""
    versions: VersionRange = "*"
    """Versions that it holds for."""
    capability: VersionRange = "*"
    """Silicon that it holds for."""
    piece: Piece
    """Which part of a layer: latent vector, index key, compressed entry, what a compressor holds, state, window."""
    cache_types: tuple[NonEmptyText, ...] = ("*",)
    """Cache types, as people ask for them, that it holds for."""
    value_bytes: float | None = None
    """Bytes of one value; None is the cache type's own."""
    rope_bytes: int | None = None
    """Bytes that the rotary part takes, whatever its width; None if it is stored as the rest."""
    scale_every: int | None = None
    """Values that share a scale; None if there are none."""
    scale_bytes: int = 0
    """Bytes of a scale."""
    entry_bytes: int | None = None
    """Bytes of a whole entry, where the layout is fixed."""
    rules: tuple[NonEmptyText, ...] = ()
    """Recurrences that a state row holds for; empty for all."""
    state_dtype: str | None = None
    """Type of a state where the configuration does not say; `model` is the weights' own."""
    conv_bytes: int | None = None
    """Bytes of one value of the convolution's state."""
    ignores_config: bool = False
    """True if the engine keeps states in its own type whatever the configuration says."""
    states: int = 1
    """States that are kept of each sequence, with prefix caching as it is by default."""
    gate_bounded: bool | None = None
    """Only for recurrences whose gate is, or is not, bounded."""
    only: tuple[NonEmptyText, ...] | None = None
    """Architectures whose windows are kept as windows; others are kept whole. None for all."""
    state_share: float | None = None
    """Bytes of the states' pool for each byte of the token pool, where the engine divides memory so."""
    page_align: int | None = None
    """Tokens that a page is a multiple of, where states and tokens share pages of one size."""
    pool_share: float | None = None
    """Tokens of the windows' pool for each token of the full pool, where the engine divides memory so."""
    block_tokens: int | None = None
    """Tokens of a block of layers that grow, where groups of unequal pages share one pool."""
    window_block_tokens: int | None = None
    """Tokens of a block of windows there."""
    align_bytes: int | None = None
    """Bytes that a page there is a multiple of."""
    in_flight_batches: int | None = None
    """Batches in flight that a request is admitted with beside its window; one more for each further pipeline stage."""
    on_host: bool = False
    """True if the piece lies in system RAM unless somebody says otherwise."""

    def holds(self, engine: str, version: str | None, capability: str | None, cache_type: str) -> bool:
        return (
            self.engine == engine
            and (self.cache_types == ("*",) or cache_type in self.cache_types)
            and (version is None or versions.in_range(version, self.versions))
            and (capability is None or versions.in_range(capability, self.capability))
        )

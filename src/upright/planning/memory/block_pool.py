"""vLLM's block pool for layers with windows and compressors, and the blocks that a request takes.

All groups of layers draw blocks of one size from one pool: a block is as wide as the widest group, and a group of small
states takes a whole block for a few tokens of them. A request is admitted with all that it may hold at once, which for
a window is the window and every token in flight: of DeepSeek V4 that is fifty times the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from upright.facts.catalog.rows.layout import LayoutRow
from upright.facts.records.model import Attention, CompressedAttention
from upright.planning.memory.layouts import Storage

_FP32 = 4
# Rows of a compressor's block, so that its page is about as large as one of entries (vLLM 0.32.0
# vllm/models/deepseek_v4/compressor.py:160-176, ratio 4 keeps two groups that overlap), and of V4.1's ring.
_STATE_ROWS = {4: 4, 128: 8}
_OVERLAPPING, _RING_ROWS = 4, 8


class Bucket(NamedTuple):
    """Layers whose cache is given out alike."""

    pages: tuple[tuple[int, int], ...]
    """Bytes of a page, and layers that have such a page."""
    block_tokens: int
    """Tokens of a block; 0 if a request takes one block whatever its length."""
    window_tokens: int | None = None
    """Tokens that are kept beside those in flight; None if all are."""

    @property
    def grows(self) -> bool:
        return bool(self.block_tokens) and self.window_tokens is None

    @property
    def repeats(self) -> int:
        return max(layers for _, layers in self.pages)

    @property
    def balanced(self) -> bool:
        return len({layers for _, layers in self.pages}) == 1

    @property
    def layers(self) -> int:
        return sum(layers for _, layers in self.pages)

    def blocks(self, tokens: int, in_flight: int) -> int:
        """Of one group, for a request of this length."""
        if not self.block_tokens:
            return 1
        if self.window_tokens is None:
            return -(-tokens // self.block_tokens)
        return -(-min(self.window_tokens - 1 + in_flight, tokens) // self.block_tokens) + 1


class Pages(NamedTuple):
    """How one rank's pool is divided."""

    block_bytes: int
    block_tokens: int
    """Tokens of a block of the layers that grow."""
    in_flight: int
    """Tokens that may be scheduled and not yet settled."""
    groups: tuple[tuple[Bucket, int], ...]
    """Every bucket, and the groups that it was split into."""

    def request_blocks(self, tokens: int) -> int:
        return sum(count * bucket.blocks(tokens, self.in_flight) for bucket, count in self.groups)

    def request_bytes(self, tokens: int) -> int:
        """What a request of this length is admitted with."""
        return self.block_bytes * self.request_blocks(tokens)

    @property
    def state_blocks(self) -> int:
        """Of a request, whatever its length."""
        return sum(count for bucket, count in self.groups if not bucket.block_tokens)

    def blocks_in(self, pool_bytes: Fraction) -> int:
        return int(pool_bytes / self.block_bytes)

    @property
    def token_bytes(self) -> Fraction:
        """What one more token of a long request takes."""
        grown = (Fraction(count, bucket.block_tokens) for bucket, count in self.groups if bucket.grows)
        return self.block_bytes * sum(grown, Fraction(0))

    def on_rank(self, sharing: int, depth: Fraction) -> Pages:
        """Of a stage's part of the layers, with what grows shared by so many ranks: windows and states lie on each."""
        groups = tuple(
            (bucket._replace(block_tokens=bucket.block_tokens * sharing) if bucket.window_tokens is None else bucket, n)
            for bucket, n in self.groups
        )
        block_bytes = -(-self.block_bytes * depth.numerator // depth.denominator)
        return self._replace(block_bytes=block_bytes, block_tokens=self.block_tokens * sharing, groups=groups)


def equal_pages(
    kinds: Sequence[tuple[int, int, int | None]], state: tuple[int, int, int] | None, block: int, in_flight: int
) -> Pages:
    """Pages of one size in groups of equally many layers: windows, states and what grows beside each other.

    Of each kind layers, bytes of a page of `block` tokens, and its window; of states layers, bytes, and how many are
    kept (vllm/v1/core/kv_cache_utils.py:1292-1505 at 0.32.0).
    """
    page = max(*(size for _, size, _ in kinds), state[1] if state else 0)
    layers: dict[Bucket, int] = {}
    for count, size, window in kinds:
        # A smaller page holds more tokens where it divides the largest, and is padded where it does not.
        bucket = Bucket(((page, 1),), block * (1 if page % size else page // size), window)
        layers[bucket] = layers.get(bucket, 0) + count
    counts = [*layers.values(), *([state[0]] if state else [])]
    least, most = min(counts), max(counts)
    size = most if 2 * most < 3 * least else least
    groups = [(bucket, -(-count // size)) for bucket, count in layers.items()]
    widest = max(-(-count // -(-count // size)) for count in counts)
    if state:
        groups.append((Bucket(((page, 1),), 0), -(-state[0] // size) * state[2]))
    grown = next(bucket.block_tokens for bucket in layers if bucket.window_tokens is None)
    return Pages(block_bytes=widest * page, block_tokens=grown, in_flight=in_flight, groups=tuple(groups))


def pages_of(
    attention: Sequence[Attention],
    dtype: str,
    storage: Storage,
    entry_bytes: Fraction,
    index_bytes: Fraction,
    batched_tokens: int,
    later_stages: int,
) -> Pages | None:
    """None unless the engine divides its pool so and every layer is compressed or windowed."""
    kinds = [kind for kind in attention if isinstance(kind, CompressedAttention)]
    if not kinds or len(kinds) != len(attention):
        return None
    row = storage.row(f"pages-{kinds[0].layout}", dtype)
    if row is None or not row.block_tokens or not row.window_block_tokens:
        return None
    buckets = [_growing(kinds, row, entry_bytes, index_bytes), _windowed(kinds, row, entry_bytes)]
    buckets += _compressors(kinds, row)
    in_flight = (row.in_flight_batches or 0) + later_stages
    return divide_pool([bucket for bucket in buckets if bucket.pages], in_flight * batched_tokens)


def divide_pool(buckets: Sequence[Bucket], in_flight: int) -> Pages:
    """As vLLM packs groups of unequal pages (vllm/v1/core/kv_cache_utils.py:1860-1996 at 0.32.0)."""
    mixed = [bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.pages) > 1]
    repeats = _least_padding([bucket.repeats for bucket in buckets if bucket.balanced], max(mixed)) if mixed else None
    counts = [-(-bucket.repeats // repeats) if repeats and bucket.balanced else 1 for bucket in buckets]
    states = [not bucket.block_tokens or (repeats is None and bucket.window_tokens is not None) for bucket in buckets]
    widest = max(
        _group_bytes(bucket, bucket.layers if state else count)
        for bucket, count, state in zip(buckets, counts, states, strict=True)
    )
    groups = []
    for bucket, count, state in zip(buckets, counts, states, strict=True):
        fitting = max(1, widest // bucket.pages[0][0])
        groups.append((bucket, max(count, -(-bucket.layers // fitting)) if state else count))
    return Pages(
        block_bytes=max(_group_bytes(bucket, count) for bucket, count in groups),
        block_tokens=buckets[0].block_tokens,
        in_flight=in_flight,
        groups=tuple(groups),
    )


def _growing(kinds: Sequence[CompressedAttention], row: LayoutRow, entry: Fraction, index: Fraction) -> Bucket:
    pages: dict[int, int] = {}
    for kind in kinds:
        if not kind.ratio:
            continue
        states = Fraction(row.block_tokens or 0, kind.ratio)
        for content in (entry, index if kind.indexer_head_dim else Fraction(0)):
            if content:
                page = _aligned(states * content, row)
                pages[page] = pages.get(page, 0) + kind.layers
    return Bucket(tuple(pages.items()), row.block_tokens or 0)


def _windowed(kinds: Sequence[CompressedAttention], row: LayoutRow, entry: Fraction) -> Bucket:
    tokens = row.window_block_tokens or 0
    page = _aligned(tokens * entry, row)
    return Bucket(((page, sum(kind.layers for kind in kinds)),), tokens, kinds[0].window_tokens)


def _compressors(kinds: Sequence[CompressedAttention], row: LayoutRow) -> list[Bucket]:
    """V4 keeps the group that is being compressed as a window of a few tokens, V4.1 in a ring."""
    buckets = []
    for kind in kinds:
        if kind.layout == "v41":
            if kind.ratio > 1:
                page = _aligned(Fraction(_RING_ROWS * 2 * kind.head_dim * _FP32), row)
                buckets.append(Bucket(((page, kind.layers),), 0))
        elif kind.ratio in _STATE_ROWS:
            rows, twice = _STATE_ROWS[kind.ratio], 2 if kind.ratio == _OVERLAPPING else 1
            widths = [kind.head_dim, *([kind.indexer_head_dim] if kind.indexer_head_dim else [])]
            pages = tuple((_aligned(Fraction(rows * 2 * twice * width * _FP32), row), kind.layers) for width in widths)
            buckets.append(Bucket(pages, rows, twice * kind.ratio))
    return buckets


def _aligned(content: Fraction, row: LayoutRow) -> int:
    step = row.align_bytes or 1
    return step * -(-content.numerator // (content.denominator * step))


def _group_bytes(bucket: Bucket, groups: int) -> int:
    """The largest of so many groups."""
    return sum(-(-layers // groups) * page for page, layers in bucket.pages)


def _least_padding(counts: Sequence[int], least: int) -> int:
    """Layers of a group for the fewest padded ones; of equals the most."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))

"""Tokens that a rank's KV cache pool holds, as the engine divides its memory.

Tokens, windows and recurrent states come from one pool. vLLM gives all of them pages of one size, so a state is padded
to a page; SGLang sets a part aside for states and another for windows, whether anybody uses them or not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from upright.base.units import format_memory
from upright.planning.memory.block_pool import Pages, equal_pages
from upright.planning.memory.kvcache import CachedLayers, CacheShape
from upright.planning.memory.layouts import Storage

# A length at which every window is full and every block of one that grows is whole.
LONGEST = 2**24


class RankCache(NamedTuple):
    """One rank's part of the cache."""

    token_bytes: Fraction
    """What a token takes there."""
    window_bytes: Fraction
    """What a sequence's windows take there once full."""
    window_token_bytes: Fraction
    """What a token inside the windows takes there."""
    state_bytes: Fraction
    """What one recurrent state of a sequence takes there, padded as the engine pads it."""
    states_kept: int
    """States that are kept of each sequence."""
    block_tokens: int
    """Tokens that the pool is given out in."""
    why: str
    """How a state came to its size; empty without states."""
    state_share: Fraction | None = None
    """Bytes that states get for each byte of the tokens' pool; None if they share it."""
    pool_share: Fraction | None = None
    """Tokens of the windows' pool for each token of the full one."""
    windows: tuple[tuple[int, Fraction], ...] = ()
    """Tokens that a request is admitted with of each window, and what one of them takes there."""
    pages: Pages | None = None
    """How the pool is divided, where groups of unequal pages share it."""

    def request_bytes(self, tokens: int) -> Fraction:
        """What a request of this length is admitted with."""
        if self.pages is not None:
            return Fraction(self.pages.request_bytes(tokens))
        windowed = sum((min(tokens, most) * size for most, size in self.windows), Fraction(0))
        return tokens * self.token_bytes + windowed + self.state_bytes * self.states_kept

    @property
    def cell_bytes(self) -> Fraction:
        """What a token of the pool takes, with its share of the windows' pool."""
        return self.token_bytes + (self.pool_share or 0) * self.window_token_bytes


def rank_cache(
    shape: CacheShape, storage: Storage, *, tensor: int, depth: Fraction, block: int, sharing: int = 1
) -> RankCache:
    """`sharing` ranks hold one copy of the growing cache together; `depth` is a stage's part of the layers."""

    def held_bytes(kind: CachedLayers) -> Fraction:
        """What a token takes in all its layers here."""
        return kind.layers * kind.token_bytes * kind.share(tensor // sharing) / sharing * depth

    windows = [(kind, held_bytes(kind)) for kind in shape.kinds if kind.window_tokens is not None]
    pages = shape.pages.on_rank(sharing, depth) if shape.pages else None
    held = RankCache(
        token_bytes=pages.token_bytes
        if pages
        else sum((held_bytes(kind) for kind in shape.kinds if kind.window_tokens is None), Fraction(0)),
        window_bytes=sum(((kind.window_tokens or 0) * size for kind, size in windows), Fraction(0)),
        window_token_bytes=sum((size for _, size in windows), Fraction(0)),
        state_bytes=shape.bytes_per_state * Fraction(1, tensor) * depth,
        states_kept=shape.states_kept,
        block_tokens=block,
        why="",
        pool_share=shape.pool_share,
        windows=tuple(((kind.window_tokens or 0) + shape.in_flight_tokens, size) for kind, size in windows),
        pages=pages,
    )
    row = storage.row("division", "*")
    if row is None or pages:
        return held
    if row.state_share is not None and shape.state_layers:
        return _set_aside(held, Fraction(row.state_share).limit_denominator(1000))
    return _paged(held, shape, row.page_align, tensor // sharing, sharing, depth) if row.page_align else held


def pool_tokens(held: RankCache, pool_bytes: Fraction, users: int, context_tokens: int) -> int:
    """Tokens of requests of this length that fit, as the engine admits them: requests at once times their length.

    Of a pool that holds none of them, the longest that it holds.
    """
    if held.token_bytes == 0 or pool_bytes <= 0:
        return 0
    if held.state_share is None and held.pool_share is None:
        request = held.request_bytes(context_tokens)
        if request > pool_bytes:
            return longest_tokens(held, pool_bytes)
        if held.pages is not None:
            return held.pages.blocks_in(pool_bytes) * context_tokens // held.pages.request_blocks(context_tokens)
        cell = request / context_tokens
        return int(pool_bytes / cell) // held.block_tokens * held.block_tokens
    pool = pool_bytes
    if held.state_share is not None:
        pool = pool_bytes / (1 + held.state_share)
        if held.state_bytes * users > pool * held.state_share:
            return 0
    if held.pool_share is None:
        pool -= users * held.window_bytes
    return max(0, int(pool / held.cell_bytes) // held.block_tokens * held.block_tokens)


def most_requests(held: RankCache, pool_bytes: Fraction, context_tokens: int) -> int | None:
    """Requests at once that the parts of states and of windows hold; None if neither has a part of its own."""
    limits, pool = [], pool_bytes / (1 + (held.state_share or 0))
    if held.state_share is not None and held.state_bytes:
        limits.append(pool * held.state_share / (held.state_bytes * held.states_kept))
    if held.pool_share is not None and held.windows:
        window = max(min(context_tokens, most) for most, _ in held.windows)
        limits.append(pool / held.cell_bytes * held.pool_share / window)
    return max(0, int(min(limits))) if limits else None


def longest_tokens(held: RankCache, pool_bytes: Fraction) -> int:
    """The longest request that fits alone."""
    if held.token_bytes == 0 or pool_bytes <= 0:
        return 0
    if held.state_share is not None or held.pool_share is not None:
        return pool_tokens(held, pool_bytes, 1, 1)
    block = held.block_tokens
    bounded = held.request_bytes(LONGEST) - LONGEST * held.token_bytes
    low = high = max(0, int((pool_bytes - bounded) / held.token_bytes) // block)
    if held.request_bytes((low + 1) * block) <= pool_bytes:  # too short to fill every window: by halving
        high = LONGEST // block
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if held.request_bytes(middle * block) <= pool_bytes else (low, middle - 1)
    return low * block


def _set_aside(held: RankCache, share: Fraction) -> RankCache:
    why = (
        f"{format_memory(int(held.state_bytes))} a sequence; states get {float(share):g} bytes for "
        "each byte of the token pool"
    )
    return held._replace(state_share=share, why=why)


def _paged(held: RankCache, shape: CacheShape, align: int, tensor: int, sharing: int, depth: Fraction) -> RankCache:
    """Every page is as large as a state of one layer, rounded up to whole tokens, or as the widest kind's."""
    tokens = [(kind.layers, kind.token_bytes * kind.share(tensor), kind.window_tokens) for kind in shape.kinds]
    grown = [size for _, size, window in tokens if window is None]
    if not grown or not (shape.state_layers or shape.windows):
        return held
    block, state, why = align, None, ""
    if shape.state_layers:
        own = Fraction(shape.bytes_per_state, shape.state_layers * tensor * sharing)
        align = max(align, 128) if shape.latent else align
        block = align * -(-own // (align * max(grown)))
        page = int(block * max(grown))
        state = (shape.state_layers, page, shape.states_kept)
        why = (
            f"pages of {block} tokens: a layer's state of {format_memory(int(own))} is padded to {format_memory(page)}"
        )
    kinds = [(layers, int(block * size), window) for layers, size, window in tokens]
    pages = equal_pages(kinds, state, block, shape.in_flight_tokens).on_rank(sharing, depth)
    return held._replace(
        pages=pages,
        token_bytes=pages.token_bytes,
        state_bytes=Fraction(pages.state_blocks * pages.block_bytes, shape.states_kept) if state else held.state_bytes,
        block_tokens=pages.block_tokens,
        why=why,
    )

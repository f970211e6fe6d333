"""Tokens that a rank's KV cache pool holds, as the engine divides its memory.

Tokens, windows and recurrent states come from one pool. vLLM gives all of them pages of one size, so a state is padded
to a page; SGLang sets a part aside for states and another for windows, whether anybody uses them or not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from upright.base.units import format_memory
from upright.planning.memory.block_pool import Pages
from upright.planning.memory.kvcache import CacheShape
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
    shape: CacheShape, storage: Storage, *, share: Fraction, tensor: int, depth: Fraction, block: int
) -> RankCache:
    """`share` is the part of the growing cache that a rank holds, `depth` its stage's part of the layers."""
    windows = sum(window.bytes_per_token for window in shape.windows)
    divided = Fraction(1, tensor)
    pages = shape.pages.on_rank(int(1 / share), depth) if shape.pages else None
    held = RankCache(
        token_bytes=Fraction(pages.block_bytes, pages.block_tokens) if pages else shape.bytes_per_token * share * depth,
        window_bytes=shape.window_bytes * share * depth,
        window_token_bytes=windows * share * depth,
        state_bytes=shape.bytes_per_state * divided * depth,
        states_kept=shape.states_kept,
        block_tokens=block,
        why="",
        pool_share=shape.pool_share,
        windows=tuple(
            (window.tokens + shape.in_flight_tokens, window.bytes_per_token * share * depth) for window in shape.windows
        ),
        pages=pages,
    )
    row = storage.row("division", "*")
    if row is None or not shape.state_layers:
        return held
    if row.state_share is not None:
        return _set_aside(held, Fraction(row.state_share).limit_denominator(1000))
    return _paged(held, shape, row.page_align or 16, share) if row.page_align else held


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


def _paged(held: RankCache, shape: CacheShape, align: int, share: Fraction) -> RankCache:
    """Every page is as large as a state of one layer, rounded up to whole tokens; groups have equally many layers."""
    if not shape.growing_layers or held.token_bytes == 0 or held.state_bytes == 0:
        return held
    align = max(align, 128) if shape.latent else align
    token = shape.bytes_per_token * share / shape.growing_layers
    state = held.state_bytes / shape.state_layers * (shape.bytes_per_token * share / held.token_bytes)
    block = align * -(-state // (align * token))
    page = block * token
    least, most = sorted((shape.growing_layers, shape.state_layers))
    group = most if most < least * Fraction(3, 2) else least
    layers = -(-shape.state_layers // group) * group
    depth = held.token_bytes / (shape.bytes_per_token * share)
    padded = layers * page * depth
    why = (
        f"pages of {int(block)} tokens: a layer's state of {format_memory(int(state))} is padded to "
        f"{format_memory(int(page))}"
    )
    return held._replace(state_bytes=padded, block_tokens=int(block), why=why)

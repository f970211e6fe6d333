"""How long one step of one box takes, whatever it carries.

Engines work in steps: each gives every decoding stream a token and takes a bounded piece of the waiting prompts along.
A box is therefore told by the time of a step, not by a rate that would hold at one load only.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from upright.base.errors import UsageError


@dataclass(frozen=True)
class Service:
    """How one box serves."""

    step_seconds: tuple[tuple[float, float], ...]
    """(streams decoding, seconds of a step with empty caches and no prompt), by streams, ascending."""
    prompt_token_seconds: float
    """What each prompt token adds to a step."""
    step_prompt_tokens: int
    """Prompt tokens that one step takes along at most."""
    pool_tokens: int
    """Tokens that the KV cache holds."""
    streams: int
    """Sequences that the engine runs at once."""
    cached_token_seconds: float = 0.0
    """What each token in the cache of a decoding stream adds to a step."""
    prompt_square_seconds: float = 0.0
    """What a prompt token adds for each token before it."""
    prompt_step_seconds: float = 0.0
    """What a step takes that only carries prompts; one that decodes too takes the time of that."""
    answer_seconds: float = 0.0
    """What a first token takes besides, without keeping the engine: network, tokenising."""

    def __post_init__(self) -> None:
        counts = [count for count, _ in self.step_seconds]
        if not counts or counts != sorted(set(counts)) or min(counts) < 1:
            raise UsageError("a service curve needs at least one number of streams, ascending, none twice")
        if min(seconds for _, seconds in self.step_seconds) <= 0 or self.step_prompt_tokens < 1:
            raise UsageError("a step takes time and carries at least one prompt token")
        if self.pool_tokens < 1 or self.streams < 1:
            raise UsageError("a box holds at least one token and one stream")
        if min(self.prompt_token_seconds, self.prompt_square_seconds) < 0:
            raise UsageError("no prompt token takes less than no time")

    def decode_seconds(self, count: int) -> float:
        """Straight lines between the known numbers of streams, and on beyond the last."""
        known = self.step_seconds
        if count <= known[0][0] or len(known) == 1:
            return known[0][1] if count else 0.0
        place = min(bisect_left(known, (count, 0.0)), len(known) - 1)
        (low, low_seconds), (high, high_seconds) = known[place - 1], known[place]
        return max(low_seconds + (high_seconds - low_seconds) * (count - low) / (high - low), low_seconds * 0.5)

    def read_seconds(self, start: int, end: int) -> float:
        """A prompt's tokens from `start` to `end`, with what is before them in the cache; steps not counted."""
        return self.prompt_token_seconds * (end - start) + self.prompt_square_seconds * (end**2 - start**2) / 2

    def scaled(self, factor: float) -> Service:
        """Every time so many times as long."""
        return replace(
            self,
            step_seconds=tuple((count, seconds * factor) for count, seconds in self.step_seconds),
            prompt_token_seconds=self.prompt_token_seconds * factor,
            cached_token_seconds=self.cached_token_seconds * factor,
            prompt_square_seconds=self.prompt_square_seconds * factor,
            prompt_step_seconds=self.prompt_step_seconds * factor,
            answer_seconds=self.answer_seconds * factor,
        )

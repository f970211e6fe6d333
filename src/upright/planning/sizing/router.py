"""A turn -> the box that the router sends it to, as smg 1.13 chooses with the flags of `fleet up`.

smg remembers what text it sent where. The box that was sent most of a prompt gets it if that is more than the threshold
and the box is not too full; everything else goes to the least loaded box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

from upright.planning.choosing.routing import RouterPolicy

_SPILL_RATIO = 1.5
"""smg's `--balance-rel-threshold`, which is not rendered."""
_LEAST_SWING = 4


class RoutedBox(Protocol):
    up: bool
    sent: int
    """Requests that it was ever sent."""

    @property
    def load(self) -> int:
        """Requests that it has."""


BoxT = TypeVar("BoxT", bound=RoutedBox)


def cache_aware(
    boxes: Sequence[BoxT], policy: RouterPolicy, *, known_at: BoxT | None, known_tokens: int, prompt_tokens: int
) -> BoxT | None:
    """`known_at` was sent so many tokens of this prompt before. None if nobody is up."""
    if known_at is not None and known_at.up:
        repeats = known_tokens > (policy.cache_threshold or 0.0) * prompt_tokens
        if repeats and not _too_full(boxes, known_at, policy.spill_requests):
            return known_at
    return min((box for box in boxes if box.up), key=lambda box: (box.load, box.sent), default=None)


def power_of_two(boxes: Sequence[BoxT], random: Random) -> BoxT | None:
    up = [box for box in boxes if box.up]
    if len(up) < 2:
        return up[0] if up else None
    one = int(random.random() * len(up))
    other = (one + 1 + int(random.random() * (len(up) - 1))) % len(up)
    return up[one] if up[one].load <= up[other].load else up[other]


def _too_full(boxes: Sequence[BoxT], box: BoxT, spill_requests: int) -> bool:
    """By so many over the mean, but never more than what a mean like this swings by itself."""
    loads = [each.load for each in boxes if each.up]
    mean = sum(loads) / len(loads)
    swing = max(_LEAST_SWING, 2 * math.sqrt(mean))
    return box.load > mean + min(spill_requests, swing) and box.load > _SPILL_RATIO * mean

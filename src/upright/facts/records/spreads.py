"""The exact distribution of a list of values."""

import math
from collections.abc import Sequence

from upright.facts.records.benchmark import Spread


def spread_of(values: Sequence[float]) -> Spread | None:
    """None if there are none."""
    if not values:
        return None
    ordered = sorted(values)

    def quantile(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Spread(
        count=len(ordered), mean=math.fsum(ordered) / len(ordered), low=ordered[0], high=ordered[-1],
        p50=quantile(0.5), p90=quantile(0.9), p99=quantile(0.99),
    )  # fmt: skip

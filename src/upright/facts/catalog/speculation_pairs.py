"""Published runs with and without speculative decoding, paired, and the gain.

Nothing is written down twice: the pairs are found among the catalogue's measurements.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from upright.facts import catalog
from upright.facts.catalog.rows.words import MeasurementRow


@dataclass(frozen=True)
class SpeculationPair:
    """Two runs that differ in speculation alone."""

    without: MeasurementRow
    drafted: MeasurementRow

    @property
    def factor(self) -> float:
        """Output tokens a second, with / without."""
        return (self.drafted.decode_tokens_per_second or 0.0) / (self.without.decode_tokens_per_second or 1.0)

    @property
    def pool_share(self) -> float | None:
        """Tokens of cache, with / without; None where the author does not say both."""
        before, after = self.without.kv_tokens, self.drafted.kv_tokens
        return after / before if before and after else None

    @property
    def words(self) -> str:
        row = self.drafted
        model = row.model.rpartition("/")[2]
        return f"{model} with {row.speculation}, {row.gpu_count}x {row.gpu}, {row.parallelism}"


@cache
def pairs() -> tuple[SpeculationPair, ...]:
    """Every run with a draft whose twin without one was published too."""
    groups: dict[tuple[object, ...], dict[bool, list[MeasurementRow]]] = defaultdict(lambda: defaultdict(list))
    for row in catalog.measurements():
        if row.decode_tokens_per_second and row.speculation is not None and row.concurrency:
            same = (
                row.model, row.gpu, row.gpu_count, row.engine, row.engine_version, row.parallelism, row.interconnect,
                row.kv_dtype, row.context_tokens, row.concurrency,
            )  # fmt: skip
            groups[same][row.speculation != "none"].append(row)
    return tuple(
        SpeculationPair(group[False][0], drafted)
        for group in groups.values()
        if len(group[False]) == 1
        for drafted in group[True]
    )


def nearest_pair(method: str, context_tokens: int, concurrency: int, decode_context: int = 1) -> SpeculationPair | None:
    """Of that method, the one whose load is nearest; None if nobody published any."""
    wanted = f"DCP{decode_context}"
    known = [pair for pair in pairs() if (pair.drafted.speculation or "").lower().startswith(method.lower())]
    fitting = [pair for pair in known if wanted in (pair.drafted.parallelism or "")] or known
    return min(
        fitting,
        key=lambda pair: (
            abs(math.log2(concurrency) - math.log2(pair.drafted.concurrency or 1)),
            abs(math.log2(context_tokens + 1024) - math.log2((pair.drafted.context_tokens or 0) + 1024)),
        ),
        default=None,
    )

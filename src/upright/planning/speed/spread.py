"""Where the next measurement will lie, from errors on runs that no constant was fitted on.

Cells of one source (who measured, which model in which format, on which GPU) are alike: a laboratory's table of a
hundred says little of another machine. So each source weighs the same, and the band is Student's prediction interval
for one more of them: the fewer sources, the wider. A row with few borrows the spread of rows of its kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from upright.base.errors import UprightError

# Nine in ten of what is measured next shall lie inside.
OUTSIDE = 0.1
# With fewer the spread among them is not known by itself.
FEW_SOURCES = 6


@dataclass(frozen=True)
class SpeedMiss:
    """A prediction's relative error on one measured cell."""

    off: float
    source: str

    @property
    def log(self) -> float:
        """Of measured over predicted."""
        return -math.log1p(self.off)


@dataclass(frozen=True)
class SourceSpread:
    """Logarithms of measured over predicted, each source weighing the same."""

    sources: int
    centre: float
    squares: float
    """Sum over the sources of their mean square distance from the centre."""

    @property
    def mean_square(self) -> float:
        """Distance from what was predicted, not from the centre."""
        return self.centre**2 + self.squares / self.sources


def spread(misses: Sequence[SpeedMiss]) -> SourceSpread:
    cells = Counter(miss.source for miss in misses)
    centre = sum(miss.log / cells[miss.source] for miss in misses) / len(cells)
    squares = sum((miss.log - centre) ** 2 / cells[miss.source] for miss in misses)
    return SourceSpread(len(cells), centre, squares)


def interval(
    own: SourceSpread, like: Sequence[SourceSpread] = (), outside: float = OUTSIDE, *, borrowed: bool = False
) -> tuple[float, float]:
    """Measured over predicted, from and to, for one more source.

    Few sources tell neither a centre nor a spread: then theirs and those of rows that are `like` it are taken together,
    around what was predicted. Where most constants are `borrowed` from another row, its own are not lost among those:
    they hold if they lie farther off.
    """
    if own.sources >= FEW_SOURCES or not like:
        variance = own.squares / max(1, own.sources - 1) * (1 + 1 / own.sources)
        return _predicted(own.centre, variance, own.sources - 1, outside)
    pool = together((own, *like))
    farther = own.mean_square if borrowed else 0.0
    return _predicted(0.0, max(pool.mean_square, farther), pool.sources, outside)


def _predicted(centre: float, variance: float, freedom: int, outside: float) -> tuple[float, float]:
    if freedom < 1:
        raise UprightError("one source tells no spread", hint="measure a second configuration: upright bench")
    reach = student(1 - outside / 2, freedom) * math.sqrt(variance)
    return math.exp(centre - reach), math.exp(centre + reach)


def together(parts: Sequence[SourceSpread]) -> SourceSpread:
    """Sources of several rows as if of one."""
    sources = sum(part.sources for part in parts)
    centre = sum(part.sources * part.centre for part in parts) / sources
    squares = sum(part.squares + part.sources * (part.centre - centre) ** 2 for part in parts)
    return SourceSpread(sources, centre, squares)


def student(share: float, freedom: int) -> float:
    """Quantile of Student's t: exact for one and two degrees of freedom, Cornish and Fisher's series for more."""
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        odds = 4 * share * (1 - share)
        return 2 * (share - 0.5) * math.sqrt(2 / odds)
    z = NormalDist().inv_cdf(share)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))

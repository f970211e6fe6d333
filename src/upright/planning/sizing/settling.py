"""How long answers take, window by window -> whether a simulation has come to its steady state."""

from __future__ import annotations

_STEADY = 0.05
"""By which the mean of a window may be above that of the one before."""
_MOST_WINDOWS = 8


class Settling:
    """Whether answers take as long as in the windows before."""

    __slots__ = ("count", "means", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0
        self.means: list[float] = []

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds

    def settled(self) -> bool:
        """At the end of a window. A fleet that is too small never settles, and shows it in what is counted."""
        self.means.append(self.seconds / self.count if self.count else 0.0)
        self.count, self.seconds = 0, 0.0
        if len(self.means) < 2:
            return False
        before, last = self.means[-2:]
        return len(self.means) >= _MOST_WINDOWS or last <= (1 + _STEADY) * before

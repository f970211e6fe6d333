"""Ends an engine before a box whose GPU and system share one memory stops answering.

Such a box does not fail an allocation when memory runs out: it hangs, and needs a power cycle
(https://github.com/vllm-project/vllm/issues/46307). A cgroup does not count what the driver allocates, so the system's
own figure is read, and the engine is ended while there is still something to end it with.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from upright.base.units import format_memory
from upright.facts.records.recipe import Recipe

LEAST_SHARE = 0.04
"""Of all memory: below this the engine is ended."""
LOOK_SECONDS = 0.5
LOOKS = 2
"""So many looks in a row, so that one short peak ends nothing."""
_LINE = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)


class MemoryGuard:
    """Looks now and then, where the recipe says that GPU and system share one memory."""

    def __init__(self, recipe: Recipe, meminfo: Callable[[], str]) -> None:
        about = recipe.circumstances
        self._needed = about is not None and about.unified_memory
        self._meminfo = meminfo
        self._next = time.monotonic()
        self._low = 0

    def trouble(self) -> str | None:
        """Why the engine must end now; None if it need not."""
        if not self._needed or time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + LOOK_SECONDS
        available = _too_little(self._meminfo())
        self._low = self._low + 1 if available is not None else 0
        if available is None or self._low < LOOKS:
            return None
        return (
            f"the system had {format_memory(available)} of memory left, which GPU and system share: the "
            "engine was ended "
            "before the machine stopped answering"
        )


def _too_little(meminfo: str) -> int | None:
    """Bytes that are left if they are too few; None if there are enough, or nobody knows."""
    known = {name: int(count) * 1024 for name, count in _LINE.findall(meminfo)}
    total, available = known.get("MemTotal", 0), known.get("MemAvailable")
    return available if available is not None and available < total * LEAST_SHARE else None

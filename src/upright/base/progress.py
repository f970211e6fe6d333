"""The type of a progress callback, and the present time as records have it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Tell = Callable[[str], None]
"""Takes one line for a person who waits; what it does with it is the caller's."""


def utc_now() -> str:
    """As records have it: `2026-11-16T05:14:00.000+00:00`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

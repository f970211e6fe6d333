"""What is installed -> the event loop that a load runs on: uvloop where it is, else Python's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_name() -> str:
    return "asyncio" if loop_factory() is None else "uvloop"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop

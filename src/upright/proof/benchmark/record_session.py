"""An endpoint + how long -> the AgentTrace of what a person's client asked of it meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType

from upright.facts.records.trace import AgentTrace
from upright.proof.benchmark.record_proxy import recording
from upright.proof.benchmark.recording import TraceRecorder

Tell = Callable[[str], None]


def recorded(base_url: str, port: int, seconds: float | None, tell: Tell) -> AgentTrace | None:
    """Until the time is over, or a person ends it; None if nothing was answered."""
    recorder = TraceRecorder()
    with _ending() as over, recording(base_url, recorder, port) as address:
        tell(f"recording {base_url}: point your client at {address}/v1 (OpenAI) or {address} (Anthropic)")
        tell("its key stays its own; Ctrl-C ends the recording")
        over.wait(seconds)
    if recorder.failed:
        tell(f"{recorder.failed} requests failed, were left or did not say their tokens: they are not in the trace")
    if recorder.passed_over:
        tell(f"{recorder.passed_over} requests had no prompt, or came when the trace was full: they are not in it")
    return recorder.trace(f"recorded {datetime.now(UTC):%Y-%m-%d}")


@contextmanager
def _ending() -> Iterator[threading.Event]:
    """Set when a person or the system asks to end, so that what was recorded is kept."""
    over = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

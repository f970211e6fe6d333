"""An exception that no row knows, and the frames above it -> the part of the engine that it was raised in.

The innermost frame that lies in a part with a name decides: libraries that everything calls have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import BinaryIO

from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.records.diagnosis import Sighting
from upright.serving.diagnose.excerpt import frames_above, frames_at_the_end, frames_below, loudest
from upright.serving.diagnose.scan import HEAD_BYTES, Hit, Scan

MOST_FRAMES = 60
FEWEST_FRAMES = 2
"""Of a traceback that is cut: one frame alone may be a warning's."""
CUT = "the traceback is cut: the exception stands below its last frame, and tells more; look for the first one"


def placed(log: BinaryIO, seen: Scan, rows: Iterable[FailureRow]) -> Hit | None:
    """None if nothing was raised, no frame is shown, or none lies in a part that a row names."""
    exception = loudest(seen)
    if exception is None:
        return None
    known = [row for row in rows if row.where == "frame"]
    frames = frames_above(log, seen, exception) or frames_below(seen, exception)
    row = _innermost(frames[:MOST_FRAMES], known)
    return Hit(row, exception, {}, 1) if row is not None else None


def cut_short(seen: Scan, rows: Iterable[FailureRow]) -> Hit | None:
    """Of a text that ends before the exception of its traceback: the part that the last frames lie in."""
    if seen.ready or seen.bytes > HEAD_BYTES or loudest(seen) is not None:
        return None
    frames = frames_at_the_end(seen)
    enough = len(frames) >= FEWEST_FRAMES or any("ERROR" in frame.text for frame in frames)
    row = _innermost(frames, [row for row in rows if row.where == "frame"]) if enough else None
    return Hit(row.model_copy(update={"when": CUT}), frames[0], {}, 1) if row is not None else None


def _innermost(frames: Sequence[Sighting], rows: Sequence[FailureRow]) -> FailureRow | None:
    """Frames come innermost first; of several rows that name one frame the first of the catalogue speaks."""
    named = (row for frame in frames for row in rows if row.matches(frame.text))
    return next(named, None)

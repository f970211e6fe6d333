"""A deployment's log: one file a start, followed across starts.

engine.log is always the present start's, so that whoever reads it reads one life; older ones are engine-1.log (the
first) and on, the newest few of them kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from upright.engines.progress import Pull, lines, reading, timed
from upright.launching.launch import status
from upright.records.deployment import RUNNING, Progress
from upright.store import DeploymentDir

KEPT = 5
_GONE_SECONDS = 3.0
"""A deployment that is down for so long is not being restarted."""


def set_aside(directory: DeploymentDir) -> None:
    """Before a start: the last start's log gets a number, the oldest ones go."""
    if not directory.log.exists() or directory.log.stat().st_size == 0:
        return
    older = previous(directory)
    newest = _number(older[-1]) if older else 0
    directory.log.rename(directory.path / f"engine-{newest + 1}.log")
    for path in older[: max(0, len(older) + 1 - KEPT)]:
        path.unlink(missing_ok=True)


def previous(directory: DeploymentDir) -> list[Path]:
    """The logs of earlier starts, the newest last."""
    return sorted(directory.path.glob("engine-[0-9]*.log"), key=_number)


def follow(directory: DeploymentDir, position: int = 0) -> Iterator[str]:
    """Pieces of the log as they come, from `position` on, until the deployment is down and stays down."""
    log = directory.log
    held: int | None = None
    down_since: float | None = None
    while True:
        size, inode = _size(log)
        if (held is not None and inode != held) or size < position:
            position = 0  # a new start has a new log
        held = inode
        if size > position:
            with log.open("rb") as file:
                file.seek(position)
                text = file.read(1 << 20)
            position += len(text)
            yield text.decode(errors="replace")
            continue
        if status(directory).state in RUNNING:
            down_since = None
        else:
            down_since = down_since or time.monotonic()
            if time.monotonic() - down_since > _GONE_SECONDS:
                return
        time.sleep(0.3)


class ProgressReader:
    """Reads what is new in the log, and says how far the engine is."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.latest: Progress | None = None
        self._pull = Pull()
        self._position = 0
        self._line = ""
        self._phase_began = time.monotonic()

    def read(self) -> Progress | None:
        size, _ = _size(self.log)
        if size > self._position:
            with self.log.open("rb") as file:
                file.seek(self._position)
                text = file.read()
            self._position += len(text)
            joined = self._line + text.decode(errors="replace")
            found = lines(joined)
            self._line = found[-1][-4096:] if found and joined[-1] not in "\r\n" else ""  # it may go on: dots do
            for line in found:
                self._take(self._pull.take(line) or reading(line))
        return self.latest

    def _take(self, said: Progress | None) -> None:
        if said is None:
            return
        if self.latest is None or self.latest.phase != said.phase:
            self._phase_began = time.monotonic()
        self.latest = timed(said, time.monotonic() - self._phase_began)


def _size(log: Path) -> tuple[int, int]:
    try:
        found = log.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_size, found.st_ino


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])

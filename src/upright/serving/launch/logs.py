"""A deployment's log: one file a start, followed across starts.

engine.log is always the present start's, so that whoever reads it reads one life; older ones are engine-1.log (the
first) and on, the newest few of them kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from upright.base.bounds.files import open_file
from upright.engines.log_progress import Pull, lines, progress_of_line, says_ready, with_times
from upright.facts.records.deployment import RUNNING, Progress
from upright.facts.store import DeploymentDir
from upright.serving.launch.launch import status
from upright.serving.launch.locks import is_supervised

KEPT = 5
_PIECE_BYTES = 1 << 20
_GONE_SECONDS = 3.0
"""A deployment that is down for so long is not being restarted."""
_LATE_SECONDS = 5.0
_QUIET_SECONDS = 0.5
"""A log that stands still for so long has said what it will say."""


def rotate_log(directory: DeploymentDir) -> None:
    """Before a start: the last start's log gets a number, the oldest ones go."""
    if not directory.log.exists() or directory.log.stat().st_size == 0:
        return
    older = earlier_logs(directory)
    newest = _number(older[-1]) if older else 0
    directory.log.rename(directory.path / f"engine-{newest + 1}.log")
    for path in older[: max(0, len(older) + 1 - KEPT)]:
        path.unlink(missing_ok=True)


def earlier_logs(directory: DeploymentDir) -> list[Path]:
    """The logs of earlier starts, the newest last."""
    return sorted(directory.path.glob("engine-[0-9]*.log"), key=_number)


def follow(directory: DeploymentDir, position: int = 0) -> Iterator[str]:
    """Pieces of the log as they come, from `position` on, until the deployment is down and stays down."""
    down_since: float | None = None
    log: BinaryIO | None = None
    try:
        while True:
            if log is None and (log := _opened(directory.log)) is not None:
                log.seek(position if os.fstat(log.fileno()).st_size >= position else 0)
            if log is not None and (text := log.read(_PIECE_BYTES)):
                yield text.decode(errors="replace")
                continue
            if log is not None and _is_another(directory.log, log):
                rest = log.read()  # what the last start wrote between our last look and its end
                log.close()
                log, position = None, 0
                yield rest.decode(errors="replace")
                continue
            if status(directory).state in RUNNING or is_supervised(directory):
                down_since = None
            else:
                down_since = down_since or time.monotonic()
                if time.monotonic() - down_since > _GONE_SECONDS:
                    return
            time.sleep(0.3)
    finally:
        if log is not None:
            log.close()


class ProgressReader:
    """Reads what is new in the log, and says how far the engine is."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.latest: Progress | None = None
        self.stood = False
        self._pull = Pull()
        self._position = 0
        self._line = ""
        self._phase_began = time.monotonic()

    def read(self) -> Progress | None:
        if (log := _opened(self.log)) is None:
            return self.latest
        with log:
            log.seek(self._position)
            text = log.read()
        if text:
            self._position += len(text)
            joined = self._line + text.decode(errors="replace")
            log_lines = lines(joined)
            self._line = (
                log_lines[-1][-4096:] if log_lines and joined[-1] not in "\r\n" else ""
            )  # it may go on: dots do
            for line in log_lines:
                self.stood = self.stood or says_ready(line)
                self._take(self._pull.take(line) or progress_of_line(line))
        return self.latest

    def catch_up(self) -> None:
        """Until the engine's own word that it stands is there: a log that is written by a thread of its own, or comes
        over ssh, may be behind the first answer, and what the start took is read from it next."""
        began = moved = time.monotonic()
        while not self.stood and time.monotonic() < min(began + _LATE_SECONDS, moved + _QUIET_SECONDS):
            before = self._position
            self.read()
            if self._position != before:
                moved = time.monotonic()
            elif not self.stood:
                time.sleep(0.02)

    def _take(self, said: Progress | None) -> None:
        if said is None:
            return
        if self.latest is None or self.latest.phase != said.phase:
            self._phase_began = time.monotonic()
        self.latest = with_times(said, time.monotonic() - self._phase_began)


def _opened(log: Path) -> BinaryIO | None:
    try:
        return open_file(log)
    except FileNotFoundError:
        return None


def _is_another(path: Path, log: BinaryIO) -> bool:
    """A start sets the log of the last one aside; an emptied log begins anew."""
    try:
        present, held = path.stat(), os.fstat(log.fileno())
    except FileNotFoundError:
        return False  # set aside, and the next is not there yet
    return present.st_ino != held.st_ino or present.st_size < log.tell()


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])

"""Pieces of an engine's log -> whole lines for a screen, or JSON strings."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path

from upright.base.bounds.files import open_file
from upright.base.errors import RecordError

_LONGEST_LINE = 10_000
_LONGEST_READ_BYTES = 1 << 20
"""Of a line that has no end: the rest of it is passed over."""


class LogLines:
    """Prints each line as soon as it is whole."""

    def __init__(self, echo: Callable[[str], None], *, as_json: bool) -> None:
        self._echo, self._as_json, self._rest = echo, as_json, ""

    def show(self, log: Path, last: int | None) -> int:
        """What is there, or the end of it; returns where that ended."""
        if not log.exists():
            return 0
        try:
            with open_file(log) as file:
                for raw in _lines(file) if last is None else deque(_lines(file), maxlen=last):
                    self.take(raw.decode(errors="replace"))
                self.end()
                return file.tell()
        except OSError as error:
            raise RecordError(f"{log} cannot be read: {error.strerror}") from None

    def take(self, piece: str) -> None:
        *whole, self._rest = (self._rest + piece).split("\n")
        for line in whole:
            self._print(line)

    def end(self) -> None:
        if self._rest:
            self._print(self._rest)
        self._rest = ""

    def _print(self, line: str) -> None:
        """What a carriage return would hide stays: each piece is a line. Nobody reads one longer than this."""
        if self._as_json:
            self._echo(json.dumps(line, ensure_ascii=False))
            return
        for piece in line.rstrip("\r").split("\r"):
            more = f"… ({len(piece):,} characters)" if len(piece) > _LONGEST_LINE else ""
            self._echo(piece[:_LONGEST_LINE] + more)


def _lines(file: BufferedReader) -> Iterator[bytes]:
    while raw := file.readline(_LONGEST_READ_BYTES):
        rest = raw
        while len(rest) == _LONGEST_READ_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_READ_BYTES)
        yield raw if rest is raw else raw + b"\n"

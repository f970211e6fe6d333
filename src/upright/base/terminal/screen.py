"""The terminal's alternate screen: redrawn without flicker, with keys and changes of size."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from upright.base.terminal.safe_output import console, mark_trusted

if TYPE_CHECKING:
    from rich.text import Text

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """Ours while the block runs; the person's own screen is there again after it, however it ends."""

    def __init__(self) -> None:
        self._console = console(soft_wrap=True)
        self._keys = sys.stdin.fileno()
        self._saved: list[Any] | None = None
        self._woken, self._wakes = os.pipe()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if os.isatty(self._keys):
            import termios
            import tty

            self._saved = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        for number in (signal.SIGWINCH, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._wake)
        self._write(_ENTER)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._write(_LEAVE)
        if self._saved is not None:
            import termios

            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._saved)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wakes)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines as the terminal has them now; COLUMNS and LINES of the environment would not change."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            size = shutil.get_terminal_size((80, 24))
        return size.columns, size.lines

    def draw(self, lines: Sequence[Text]) -> None:
        """As one frame: a terminal that knows synchronized output shows it whole, others ignore the marks."""
        with self._console.capture() as capture:
            for number, line in enumerate(lines):
                self._console.print(line, end="" if number == len(lines) - 1 else "\n", crop=False, no_wrap=True)
        body = capture.get().replace("\n", f"{_REST_OF_LINE}\r\n")
        self._write(f"{_BEGIN_FRAME}{_HOME}{body}{_REST_OF_LINE}{_REST_OF_SCREEN}{_END_FRAME}")

    def wait(self, seconds: float) -> bool:
        """False if the person wants to leave. Ends early at a key or a change of size."""
        keys = [self._keys] if self._saved is not None else []
        ready, _, _ = select.select([*keys, self._woken], [], [], seconds)
        if self._woken in ready and os.read(self._woken, 64).find(b"q") >= 0:
            return False
        if self._keys in ready:
            typed = os.read(self._keys, 64)
            return bool(typed) and not typed.lower().startswith((b"q", b"\x1b\x1b", b"\x03"))
        return True

    def _wake(self, number: int, frame: FrameType | None) -> None:
        os.write(self._wakes, b"q" if number == signal.SIGTERM else b"w")

    def _write(self, text: str) -> None:
        sys.stdout.write(mark_trusted(text))
        sys.stdout.flush()

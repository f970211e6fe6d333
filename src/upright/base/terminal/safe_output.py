"""stdout and stderr that escape every control sequence but our own.

What is written is shown (`foreign.visible`); escapes of our own are sealed with a word that nobody can guess, and the
door alone opens the seal. Whoever forgets to seal loses a colour, not the person's clipboard.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

from upright.base.untrusted_text import escape_character, escape_controls

if TYPE_CHECKING:
    from rich.console import Console

_SEAL = f"\ufdd0{os.urandom(8).hex()}"
_ESCAPE, _RETURN = f"{_SEAL}e", f"{_SEAL}r"
_COLOUR = re.compile(rf"{_ESCAPE}\[[0-9;]*m")
_LIKE = str.maketrans(
    {"·": "-", "…": "...", "×": "x", "→": "->", "←": "<-", "≥": ">=", "≤": "<=", "≈": "~", "±": "+-", "µ": "u",
     "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "•": "*", "─": "-", "━": "-", "│": "|", "█": "#",
     "✓": "+", "✗": "x"}
)  # fmt: skip
"""What pages are written with, and what it is where an encoding lacks it."""


def mark_trusted(text: str) -> str:
    """Escapes and carriage returns of this text are ours, and reach the terminal."""
    return text.replace("\x1b", _ESCAPE).replace("\r", _RETURN)


def style(text: object, **how: Any) -> str:
    """As click's: what is styled may be another's, the colour is ours."""
    return mark_trusted(click.style(escape_controls(str(text)).replace("\r", "\\u000d"), **how))


def spelled_for(stream: Any, text: str) -> str:
    """A page in letters that the stream's encoding has; JSON is never spelled otherwise."""
    return text if _has_all(getattr(stream, "encoding", None)) else text.translate(_LIKE)


def _has_all(encoding: str | None) -> bool:
    return (encoding or "utf-8").lower().replace("_", "-").startswith(("utf", "gb18030"))


def uncoloured(text: str) -> str:
    """Without our own colours."""
    return _COLOUR.sub("", text)


class EscapingStream(io.TextIOBase):
    """A stream that shows what it is given. It has no bytes below it that others could write past."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("text, not bytes")
        shown = escape_controls(text)
        self.inner.write(shown.replace(_ESCAPE, "\x1b").replace(_RETURN, "\r") if _SEAL in shown else shown)
        return len(text)

    def flush(self) -> None:
        self.inner.flush()

    def fileno(self) -> int:
        return self.inner.fileno()

    def isatty(self) -> bool:
        return self.inner.isatty()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.inner.close()

    @property
    def closed(self) -> bool:
        return self.inner.closed

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.inner.encoding or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.inner.errors


class _Sealing(io.TextIOBase):
    """What a console writes is made of its own escapes and of text that was shown already."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr

    @property
    def _stream(self) -> TextIO:
        """The door itself: a live display of rich puts a proxy there, which would print through this console again."""
        stream: TextIO = sys.stderr if self._stderr else sys.stdout
        return getattr(stream, "rich_proxied_file", stream)

    def write(self, text: str) -> int:
        through = self._stream
        through.write(mark_trusted(text) if isinstance(through, EscapingStream) else text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"


def console(*, stderr: bool = False, width: int | None = None, soft_wrap: bool = False) -> Console:
    """Rich, for text of others: no markup, no links, and every segment shown before it is coloured."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Shown(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                    continue
                look = segment.style.update_link(None) if segment.style and segment.style.link else segment.style
                yield Segment(escape_controls(segment.text), look)

    file: Any = _Sealing(stderr=stderr)
    return Shown(file=file, width=width, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)


def prepare_streams() -> None:
    """A dumb terminal gets plain text, a stream that was closed leads nowhere, what is piped in is UTF-8.

    What an encoding lacks is written by its number, as JSON does: `LC_ALL=C` ends nothing, and JSON stays whole.
    """
    codecs.register_error(_BY_NUMBER, _numbered)
    if os.environ.get("TERM") == "dumb":
        os.environ.setdefault("NO_COLOR", "1")
    sys.stdout = sys.stdout or null_stream()
    sys.stderr = sys.stderr or null_stream()
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if not _has_all(stream.encoding):
            stream.reconfigure(errors=_BY_NUMBER)
        elif stream.errors == "strict":
            stream.reconfigure(errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper) and not _has_all(sys.stdin.encoding):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    sys.stdout, sys.stderr = EscapingStream(sys.stdout), EscapingStream(sys.stderr)


_BY_NUMBER = "upright-by-number"


def _numbered(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(escape_character, error.object[error.start : error.end])), error.end


def null_stream() -> TextIO:
    from pathlib import Path

    return Path(os.devnull).open("w", encoding="utf-8")

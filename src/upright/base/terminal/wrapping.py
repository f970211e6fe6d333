"""Sentences wrapped to the width of the terminal; one line each in a pipe."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def print_wrapped(console: Console, text: str, indent: int = 0) -> None:
    """Pipes get one line a sentence, so that they can be searched."""
    margin = " " * indent
    if console.is_terminal:
        text = textwrap.fill(
            text,
            max(40, console.width),
            initial_indent=margin,
            subsequent_indent=margin + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    else:
        text = margin + text
    console.print(text, soft_wrap=True, markup=False, emoji=False)


def wrap_hanging(head: str, text: str) -> str:
    """For stderr, with the head hanging out: a line feed in another's words begins no line that looks like ours."""
    first, *more = text.split("\n")
    more = [f"{' ' * len(head)}{text_line}" for text_line in more]
    if not sys.stderr.isatty():
        return "\n".join((head + first, *more))
    width = max(40, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    wrap = textwrap.TextWrapper(
        width, subsequent_indent=" " * len(head), break_long_words=False, break_on_hyphens=False
    )
    return "\n".join((wrap.fill(head + first), *more))

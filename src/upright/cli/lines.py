"""A sentence -> lines of a terminal: broken between words, or left whole where nobody's screen is narrow."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def line(console: Console, text: str, indent: int = 0) -> None:
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

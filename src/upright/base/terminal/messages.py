"""Messages and notes on stderr, and the console and the width of pages on stdout."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from upright.base.progress import Pulse
from upright.base.terminal.safe_output import console, spelled_for

if TYPE_CHECKING:
    from rich.console import Console


_LONGEST_NOTE = 4000


def say(text: str) -> None:
    """Talk to the person, on stderr; a second line is indented, so that none of another's looks like ours."""
    click.echo(spelled_for(sys.stderr, text.replace("\n", "\n  ")), err=True)


@contextmanager
def watched() -> Iterator[Pulse]:
    """`say`, and a line of its own where a step takes long."""
    tell = Pulse(say)
    with tell.watching():
        yield tell


def note(text: str) -> None:
    """Something worth knowing, on stderr."""
    from upright.base.terminal.wrapping import wrap_hanging

    click.echo(spelled_for(sys.stderr, wrap_hanging("note: ", text[:_LONGEST_NOTE])), err=True)


def page_width() -> int:
    """Columns of the terminal; 80 without one."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 80


def stdout_console() -> Console:
    """Rich on stdout: plain without a terminal or with NO_COLOR, 80 columns unless told otherwise."""
    return console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 80)

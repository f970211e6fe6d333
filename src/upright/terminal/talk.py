"""Words -> stderr, where the talk goes; and how wide a page on stdout may be."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from upright.terminal.door import console

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """Talk to the person, on stderr."""
    click.echo(text, err=True)


def note(text: str) -> None:
    """Something worth knowing, on stderr."""
    from upright.terminal.lines import fitted

    say(fitted("note: ", text))


def page_width() -> int:
    """Columns of the terminal; 80 without one."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 80


def stdout_console() -> Console:
    """Rich on stdout: plain without a terminal or with NO_COLOR, 80 columns when nobody says otherwise."""
    return console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 80)

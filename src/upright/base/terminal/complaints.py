"""What went wrong -> two lines on stderr; of a bug, its traceback too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from upright.base.terminal.door import nowhere

_LONGEST_COMPLAINT = 4000
_LONGEST_TRACEBACK_LINES = 60


def own_fault(error: Exception, version: str) -> None:
    """Through the door too: what a traceback quotes may be another's words."""
    import traceback

    lines = "".join(traceback.format_exception(error)).splitlines(keepends=True)
    if len(lines) > _LONGEST_TRACEBACK_LINES:
        half = _LONGEST_TRACEBACK_LINES // 2
        lines = [*lines[:half], "  …\n", *lines[-half:]]
    click.echo("".join(line[:_LONGEST_COMPLAINT] for line in lines), err=True, nl=False)
    kind = type(error).__name__
    complain(f"this is a bug of upright {version}: {kind}: {error}", "please report it with the lines above")


def lost(error: OSError) -> None:
    if error.filename is not None:
        complain(f"{error.strerror}: {error.filename!s:.60}", None)
        return
    sys.stdout = nowhere()  # the interpreter would flush it once more at its end
    complain(f"the answer could not be written: {error.strerror}", None)


def typed_command(command: click.Command, words: Sequence[str]) -> str:
    """The verb that these words name: click does not say where an option stood that has no value."""
    path = ["upright"]
    for word in words:
        inner = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if inner is None:
            break
        path.append(word)
        command = inner
    return " ".join(path)


def complain(message: str, hint: str | None) -> None:
    from upright.base.terminal.lines import fitted

    message = message.replace("\n\t", " ")  # click sets choices in a column of their own
    click.echo(fitted("error: ", message[:_LONGEST_COMPLAINT]), err=True)
    if hint:
        click.echo(fitted("hint:  ", hint), err=True)

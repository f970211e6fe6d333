"""Error messages on stderr: message and hint, and the traceback of a bug."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from upright.base.terminal.safe_output import null_stream

_LONGEST_COMPLAINT = 4000
_LONGEST_TRACEBACK_LINES = 60


def print_bug(error: Exception, version: str) -> None:
    """Through the door too: what a traceback quotes may be another's words."""
    import traceback

    lines = "".join(traceback.format_exception(error)).splitlines(keepends=True)
    if len(lines) > _LONGEST_TRACEBACK_LINES:
        half = _LONGEST_TRACEBACK_LINES // 2
        lines = [*lines[:half], "  …\n", *lines[-half:]]
    click.echo("".join(line[:_LONGEST_COMPLAINT] for line in lines), err=True, nl=False)
    kind = type(error).__name__
    print_error(f"this is a bug of upright {version}: {kind}: {error}", "please report it with the lines above")


def print_os_error(error: OSError) -> None:
    if error.filename is not None:
        print_error(f"{error.strerror}: {error.filename!s:.60}", None)
        return
    sys.stdout = null_stream()  # the interpreter would flush it once more at its end
    print_error(f"the answer could not be written: {error.strerror}", None)


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


def print_error(message: str, hint: str | None) -> None:
    from upright.base.terminal.wrapping import wrap_hanging

    message = message.replace("\n\t", " ")  # click sets choices in a column of their own
    click.echo(wrap_hanging("error: ", message[:_LONGEST_COMPLAINT]), err=True)
    if hint:
        click.echo(wrap_hanging("hint:  ", hint), err=True)

"""Where a verb's answer goes: a page, JSON, or a file.

stdout is the answer (a page for people, or with --json the record and nothing else), stderr is the talk, and the last
line of the talk is the next command to type.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from upright.app.cli.verbs import words_of
from upright.base.errors import UsageError
from upright.base.terminal.messages import note as note
from upright.base.terminal.messages import page_width as page_width
from upright.base.terminal.messages import say as say
from upright.base.terminal.messages import stdout_console as stdout_console
from upright.base.terminal.messages import watched as watched
from upright.base.terminal.safe_output import mark_trusted, spelled_for, uncoloured

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.base import Record

F = TypeVar("F", bound=Callable[..., Any])


class Output(NamedTuple):
    """Where a verb's answer goes."""

    as_json: bool
    path: Path | None

    def answer(
        self, record: Record | Mapping[str, Any] | Sequence[Any], page: Callable[[Console], object] | None = None
    ) -> None:
        """Print the record as JSON or as its page, and write it to the file if one was named."""
        text = _json(record)
        if self.path is not None:
            from upright.facts.store import write_inside

            write_inside(self.path, _yaml(record) if self.path.suffix in (".yaml", ".yml") else text)
        if self.as_json:
            click.echo(text, nl=False)
        elif page is not None:
            shown = stdout_console()
            with shown.capture() as capture:
                page(shown)
            told = "".join(f"{line.rstrip()}\n" for line in capture.get().split("\n")[:-1])
            click.echo(mark_trusted(spelled_for(sys.stdout, told)), nl=False)

    @property
    def wants_record(self) -> bool:
        """Whether anybody will see the JSON: making it costs time."""
        return self.as_json or self.path is not None

    def show(self, text: str) -> None:
        """Print a page of plain or coloured lines, unless JSON was asked for."""
        if not self.as_json:
            plain = "NO_COLOR" in os.environ or not sys.stdout.isatty()
            click.echo(spelled_for(sys.stdout, uncoloured(text) if plain else text))

    def next(self, *words: str) -> None:
        """The next command, made from the caller's own arguments."""
        say(f"next: {shlex.join(['upright', *words_of(words[0]), *words[1:]])}")

    def no(self) -> None:
        """The answer is no: exit code 1."""
        raise click.exceptions.Exit(1)


def output_options(function: F) -> F:
    """Adds --json and -o FILE; the function receives `output: Output`."""

    @click.option("--json", "as_json", is_flag=True, help="Print the record as JSON on stdout.")
    @click.option(
        "-o",
        "--output",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Also write it here: as YAML if it ends in .yaml.",
    )
    @functools.wraps(function)
    def wrapper(*, as_json: bool, path: Path | None, **arguments: Any) -> Any:
        return function(output=Output(as_json, path), **arguments)

    return wrapper  # type: ignore[return-value]


def _json(record: Record | Mapping[str, Any] | Sequence[Any]) -> str:
    to_json = getattr(record, "to_json", None)
    if to_json is not None:
        return str(to_json())
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _yaml(record: Record | Mapping[str, Any] | Sequence[Any]) -> str:
    to_yaml = getattr(record, "to_yaml", None)
    if to_yaml is None:
        raise UsageError("this answer is no record, and is written as JSON only", hint="name a file that ends in .json")
    return str(to_yaml())

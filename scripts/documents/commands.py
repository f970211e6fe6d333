"""The verbs' own help -> docs/commands.md."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

from scripts.linting import next_commands

OWNED = ["docs/commands.md"]
_WIDTH = 80


def pages() -> dict[Path, str]:
    from upright.app.cli.main import cli
    from upright.app.cli.verbs import FOLDED, SECTIONS

    lines = [
        "# Commands",
        "",
        "Written from the verbs' own help. Every option can be given as an environment variable too: `--port` of",
        "`upright up` is `UPRIGHT_UP_PORT`. What stands under another verb has its name as a verb of its own too:",
        f"{_listed(FOLDED)}.",
        "",
        *_block(cli, "upright"),
    ]
    for section, verbs in SECTIONS.items():
        lines += [f"## {section}", ""]
        for verb in verbs:
            lines += [
                f"### upright {verb}",
                "",
                *_verb(import_module(f"upright.app.cli.{verb.replace('-', '_')}").command, f"upright {verb}"),
            ]
    lines += [
        "## What comes next",
        "",
        "Each verb ends by naming the command that most people need then, made from what was typed. This is read from",
        "the verbs' own source; who follows never comes back: `pytest tests/contract/test_next_commands.py`.",
        "",
        *next_commands.table(),
        "",
    ]
    return {Path("docs/commands.md"): "\n".join(lines)}


def _listed(folded: dict[str, dict[str, str]]) -> str:
    return "; ".join(f"{', '.join(f'`{verb}`' for verb in verbs)} of `{group}`" for group, verbs in folded.items())


def _verb(command: click.Command, path: str) -> Iterator[str]:
    yield from _block(command, path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _verb(child, f"{path} {name}")


def _block(command: click.Command, path: str) -> list[str]:
    settings = {"help_option_names": ["-h", "--help"]}
    context = click.Context(command, info_name=path, terminal_width=_WIDTH, max_content_width=_WIDTH, **settings)
    return ["```text", *command.get_help(context).splitlines(), "```", ""]

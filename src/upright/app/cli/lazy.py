"""Command groups that import a command only when it is called, so that help is instant."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

import click


class LazyGroup(click.Group):
    """Command `x` is `command` of the module `x` with the group's prefix, `x-y` of `x_y`; the table's words are
    all that help reads."""

    table: ClassVar[dict[str, str]]
    module: ClassVar[str]
    """What stands before a command's name in its module's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        command = import_module(f"{self.module}{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))


class FoldingGroup(LazyGroup):
    """A verb that others stand under, which keep their own names (`context_settings` those of their variables)."""

    module = "upright.app.cli."


class FullSummaryGroup(click.Group):
    """A group whose help has the whole first paragraph of each command: click would cut it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        first = [(name, (command.help or "").partition("\n\n")[0]) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(summary.split())) for name, summary in first])

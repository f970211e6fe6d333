"""`upright tools completion`: a completion script for a shell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from upright.app.cli.options import ENGINE, RUNG
from upright.app.cli.output import Output, output_options

if TYPE_CHECKING:
    from upright.app.completion import Completion, OptionWords, VerbWords

_BY_NAME = {
    "models": {"model", "source"},
    "boxes": {"box"},
    "deployments": {"deployment", "name", "deployments"},
    "files": {"output", "path", "file", "dir", "log", "recipe", "plan"},
}
"""What a parameter is called -> the list that its values are of."""


@click.command()
@click.argument("shell", required=False, type=click.Choice(["bash", "zsh", "fish"]))
@output_options
def command(shell: str | None, output: Output) -> None:
    """Write a script that completes verbs, options, models, boxes and deployments in your shell.

    \b
    bash:  echo 'source <(upright tools completion bash)' >> ~/.bashrc
    zsh:   echo 'source <(upright tools completion zsh)' >> ~/.zshrc
    fish:  upright tools completion fish > ~/.config/fish/completions/upright.fish

    Without a name: for your login shell ($SHELL). The script holds the catalogue's names as they are now: write it
    again after an update. Completing starts no Python.
    """
    from upright.app.completion import SHELLS

    shell = shell or _login_shell(tuple(SHELLS))
    completion = _completion()
    script = SHELLS[shell](completion)
    output.show(script.removesuffix("\n"))
    output.answer({"shell": shell, "script": script, "lists": completion.lists})


def _login_shell(known: tuple[str, ...]) -> str:
    from upright.base.errors import UsageError

    name = PurePath(os.environ.get("SHELL", "")).name
    if name not in known:
        raise UsageError("your login shell is none that can be completed", hint=f"name it: {', '.join(known)}")
    return name


def _completion() -> Completion:
    from upright.app.cli.main import cli
    from upright.app.completion import Completion
    from upright.base.home import home
    from upright.engines import ENGINES
    from upright.facts import catalog
    from upright.proof.ladder.ladder import rung_names

    lists = {
        "models": tuple(row.id for row in catalog.models()),
        "boxes": tuple(row.id for row in catalog.boxes()),
        "engines": tuple(ENGINES),
        "rungs": tuple(rung_names()),
    }
    verbs = tuple(_verbs(cli, (), lists))
    return Completion(verbs=verbs, lists=lists, deployments_folder=str(home() / "deployments"))


def _verbs(group: click.Group, path: tuple[str, ...], lists: dict[str, tuple[str, ...]]) -> Iterator[VerbWords]:
    from upright.app.completion import VerbWords

    context = click.Context(group)
    for name in group.list_commands(context):
        if (verb := group.get_command(context, name)) is None:
            continue
        here = (*path, name)
        arguments = [param for param in verb.params if isinstance(param, click.Argument)]
        yield VerbWords(
            path=here,
            summary=verb.get_short_help_str(80),
            options=tuple(_option(param, lists) for param in verb.params if isinstance(param, click.Option)),
            argument=_taken(arguments[0], lists) or "files" if arguments else None,
        )
        if isinstance(verb, click.Group):
            yield from _verbs(verb, here, lists)


def _option(option: click.Option, lists: dict[str, tuple[str, ...]]) -> OptionWords:
    from upright.app.completion import OptionWords

    takes = None if option.is_flag or option.count else _taken(option, lists)
    return OptionWords((*option.opts, *option.secondary_opts), takes, (option.help or "").partition(". ")[0])


def _taken(parameter: click.Parameter, lists: dict[str, tuple[str, ...]]) -> str:
    """The name of a list; choices become one of their own."""
    if isinstance(parameter.type, click.Choice):
        choices = tuple(map(str, parameter.type.choices))
        lists.setdefault(name := f"choice_{'_'.join(choices)}", choices)
        return name
    if isinstance(parameter.type, click.Path | click.File):
        return "files"
    if parameter.type in (ENGINE, RUNG):
        return "engines" if parameter.type is ENGINE else "rungs"
    wanted = {parameter.name, (parameter.metavar or "").strip("[]").rpartition("|")[2].lower()}
    if isinstance(parameter, click.Option):
        wanted.discard("name")  # of a variable, not of a deployment
    return next((name for name in _BY_NAME if wanted & _BY_NAME[name]), "")

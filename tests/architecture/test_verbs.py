"""Every verb is documented, keeps the manners, and says what it is in one line everywhere."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from tests.conftest import Upright
from upright.cli.main import VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_the_table_of_verbs_says_what_the_verb_says(verb: str):
    command = import_module(f"upright.cli.{verb}").command
    assert isinstance(command, click.Command)
    assert (command.help or "").splitlines()[0] == VERBS[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json(verb: str):
    def leaves(command: click.Command) -> list[click.Command]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            children = [command.get_command(context, name) for name in command.list_commands(context)]
            return [leaf for child in children if child for leaf in leaves(child)]
        return [command]

    for leaf in leaves(import_module(f"upright.cli.{verb}").command):
        assert any("--json" in parameter.opts for parameter in leaf.params), leaf.name


def test_an_unknown_verb_is_met_with_the_nearest(upright: Upright):
    done = upright("prob")
    assert done.returncode == 2
    assert done.stderr == "error: no such verb: prob (did you mean probe?)\nhint:  upright --help\n"


def test_a_missing_argument_names_the_verbs_help(upright: Upright):
    done = upright("up")
    assert done.returncode == 2
    assert done.stderr == "error: Missing argument 'MODEL'.\nhint:  upright up --help\n"


def test_nothing_deployed_yet(upright: Upright):
    for verb in ("logs", "down", "prove", "connect", "report"):
        done = upright(verb)
        assert done.returncode == 2, verb
        assert done.stderr == "error: there is no deployment yet\nhint:  upright up MODEL\n"
    assert upright("ps").stdout == "no deployments\n"

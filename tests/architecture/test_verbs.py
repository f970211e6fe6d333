"""Every verb is documented, keeps the manners, and says what it is in one line everywhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.conftest import Upright
from upright.app.cli.main import cli
from upright.app.cli.output import Output
from upright.app.cli.verbs import SHOWN, VERBS, words_of

OF_ONE_LEVEL = {
    "recommend", "probe", "read", "plan", "compare", "render", "check", "demo", "engine", "run", "launch", "fetch",
    "rehearse", "up", "ps", "top", "logs", "restart", "down", "diagnose", "fleet", "prove", "bench", "record",
    "connect", "monitor", "residuals", "bundle", "verify", "replay", "field-test", "index", "report", "explain",
    "calibrate", "catalog", "store", "kernels", "completion", "site", "patch",
}  # fmt: skip
"""The 41 names that there were when each was a level of its own."""


@pytest.mark.parametrize("verb", VERBS)
def test_the_table_of_verbs_says_what_the_verb_says(verb: str):
    command = import_module(f"upright.app.cli.{verb.replace('-', '_')}").command
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

    for leaf in leaves(import_module(f"upright.app.cli.{verb.replace('-', '_')}").command):
        assert any("--json" in parameter.opts for parameter in leaf.params), leaf.name


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_terminal_and_no_sentence_is_cut(verb: str):
    def pages(command: click.Command, context: click.Context) -> Iterator[str]:
        yield command.get_help(context)
        for name in command.list_commands(context) if isinstance(command, click.Group) else ():
            child = command.get_command(context, name)  # type: ignore[attr-defined]
            yield from pages(child, click.Context(child, context, name, terminal_width=80))

    command = import_module(f"upright.app.cli.{verb.replace('-', '_')}").command
    lines = "\n".join(pages(command, click.Context(command, info_name=f"upright {verb}", terminal_width=80))).split(
        "\n"
    )
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if re.match(r"  [a-z]+  +.*\w,?\.\.\.$", line)] == []


def test_few_verbs_are_shown_and_no_name_was_lost():
    assert len(SHOWN) <= 24
    assert set(VERBS) >= OF_ONE_LEVEL
    assert {words_of(verb)[0] for verb in VERBS} == set(SHOWN)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - set(SHOWN)))
def test_an_old_name_is_the_same_command_with_the_same_variables(verb: str):
    def reached(*words: str) -> tuple[click.Command, str | None]:
        context = click.Context(cli, auto_envvar_prefix="UPRIGHT")
        for word in words:
            command = context.command.get_command(context, word)  # type: ignore[attr-defined]
            context = command.make_context(word, [], parent=context, resilient_parsing=True)
        return context.command, context.auto_envvar_prefix

    assert reached(verb) == reached(*words_of(verb))
    context = click.Context(cli)
    assert verb not in cli.list_commands(context)


def test_the_next_command_is_spelled_as_it_is_shown(capsys: pytest.CaptureFixture[str]):
    Output(False, None).next("verify", "a.json")
    assert capsys.readouterr().err == "next: upright share verify a.json\n"


def test_an_unknown_verb_is_met_with_the_nearest(upright: Upright):
    done = upright("prob")
    assert done.returncode == 2
    assert done.stderr == "error: no such verb: prob (did you mean probe?)\nhint:  upright --help\n"


def test_a_missing_argument_names_the_verbs_help(upright: Upright):
    done = upright("up")
    assert done.returncode == 2
    assert done.stderr == "error: Missing argument 'MODEL'.\nhint:  upright up --help\n"


def _talk_on_a_terminal(folder: Path, *words: str) -> tuple[int, list[str]]:
    """What stderr shows on a terminal of 60 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    argv = [sys.executable, "-m", "upright", *words]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=theirs, cwd=folder, check=False)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode().replace("\r", "").splitlines()
    os.close(ours)
    return done.returncode, shown


def test_a_complaint_is_broken_between_words_on_a_terminal(tmp_path: Path):
    code, shown = _talk_on_a_terminal(tmp_path, "read", "nothere.gguf")
    assert code == 2
    assert shown[-5:] == [
        "error: nothere.gguf is no file, no repository's name and not",
        "       in the catalogue",
        "hint:  name a GGUF file, a config.json, a model's directory,",
        "       owner/repo[@revision][:QUANT], or one of: upright",
        "       catalog list models",
    ]


def test_a_note_is_broken_between_words_on_a_terminal(tmp_path: Path):
    code, shown = _talk_on_a_terminal(tmp_path, "plan", "moonshotai/Kimi-K2.6", "--box", "4x-rtx-pro-6000-server")
    assert code == 1
    assert shown[:3] == [
        "note: system RAM of this box is not specified: with enough",
        "      of it, experts offloaded to CPU may fit",
        "next: upright plan moonshotai/Kimi-K2.6 --box 4x-rtx-pro-6000-server --ram 512GB",
    ]


def test_nothing_deployed_yet(upright: Upright):
    for verb in ("logs", "down", "prove", "connect", "report"):
        done = upright(verb)
        assert done.returncode == 2, verb
        assert done.stderr == "error: there is no deployment yet\nhint:  upright up MODEL\n"
    assert upright("ps").stdout == "no deployments\n"

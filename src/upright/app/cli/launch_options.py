"""Options that say which engine is started, in which runtime and on which machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from upright.app.cli.options import ParsedType, engine_option, goal_options, port_option, typed_words
from upright.app.cli.output import Output, say
from upright.app.cli.plan_options import host_cache_option, place_option

if TYPE_CHECKING:
    from upright.facts.records.deployment import Keeping
    from upright.facts.store import DeploymentDir
    from upright.flows.line import LaunchTarget
    from upright.serving.fetch import FetchNeed

F = TypeVar("F", bound=Callable[..., Any])
LAUNCH_OPTIONS = (
    *("context", "users", "port", "engine", "engine_version", "place", "host_cache"),
    *("runtime", "image", "host", "remote_port", "model_path", "passed"),
)
"""The options below, by name."""


def _variable(text: str) -> str:
    """The name of an environment variable; its value is never typed here, where a process listing would show it."""
    if "=" in text:
        raise ValueError(f"export {text.partition('=')[0]} first, and give its name alone")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"{text!r} is no name of a variable")
    return text


def launch_options(function: F) -> F:
    for option in (
        click.option(
            "--env",
            "passed",
            multiple=True,
            metavar="NAME",
            type=ParsedType("name", _variable),
            help="Hand this variable of the environment on to the engine too.",
        ),
        click.option("--model-path", help="Where the weights are on that machine.  [default: as here]"),
        click.option(
            "--remote-port", type=click.IntRange(1, 65535), help="Its port on that machine.  [default: as --port]"
        ),
        click.option("--host", help="Start it on another machine: ssh:HOST. It answers here, through a tunnel."),
        click.option("--image", help="Container image: a name of the catalogue, NAME:TAG or a digest."),
        click.option(
            "--runtime",
            type=click.Choice(["process", "podman", "docker"]),
            default="process",
            show_default=True,
            help="What the engine runs in.",
        ),
        host_cache_option,
        place_option,
        click.option("--engine-version", help="For this version of it: that of the image, where one is used."),
        engine_option,
        port_option,
        goal_options,
    ):
        function = option(function)
    return function


def launch_target_of(wanted: dict[str, Any], keeping: Keeping | None = None) -> LaunchTarget:
    from upright.base.errors import UsageError
    from upright.base.units import GIB
    from upright.flows.line import LaunchTarget

    kind, _, machine = (wanted["host"] or "").partition(":")
    if wanted["host"] and (kind != "ssh" or not machine):
        raise UsageError(f"{wanted['host']} is no machine", hint="write --host ssh:HOST")
    if not machine and (typed_words("remote_port") or typed_words("model_path")):
        raise UsageError("--remote-port and --model-path are about another machine", hint="add --host ssh:HOST")
    if wanted["image"] and wanted["runtime"] == "process":
        raise UsageError("an image runs in a container", hint="add --runtime podman, or --runtime docker")
    return LaunchTarget(
        machine=machine or None,
        port=wanted["port"],
        runtime=wanted["runtime"],
        image=wanted["image"],
        model_path=wanted["model_path"],
        keeping=keeping,
        passed=wanted["passed"],
        host_cache_bytes=int(wanted["host_cache"] * GIB) if wanted["host_cache"] else None,
    )


def engine_port(wanted: dict[str, Any]) -> int:
    """Where it binds, on its own machine."""
    return int(wanted["remote_port"] or wanted["port"])


def ask_before_fetching(need: FetchNeed, question: str | None = None, *, yes: bool, beyond_bytes: int = 0) -> None:
    """Before what is expensive; nobody is asked who cannot answer."""
    from upright.base.errors import UsageError
    from upright.base.units import format_size

    words = question or f"{format_size(need.missing_bytes)} of {need.source} to fetch into {need.room.folder}"
    if yes or need.missing_bytes <= beyond_bytes:
        say(words)
    elif not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(words, hint=f"say so with --yes, or bring it first: upright fetch {need.source}")
    else:
        click.confirm(f"{words}. Go on?", abort=True, err=True)


def detach(directory: DeploymentDir, output: Output) -> None:
    """Ctrl-C while it starts: the waiting ends, the engine does not."""
    from upright.serving.launch import is_starting

    if not is_starting(directory):
        raise KeyboardInterrupt  # it had not begun
    say(f"detached: {directory.name} goes on starting")
    output.next("logs", directory.name, "--follow")

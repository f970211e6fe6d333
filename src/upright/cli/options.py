"""Options that several verbs share, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PORT = 8000


class Tokens(click.ParamType[int]):
    """65536 or 64k."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from upright.units import parse_tokens

        try:
            return parse_tokens(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def goal_options(function: F) -> F:
    """--context, --users: what the person wants."""
    for option in (
        click.option("--users", type=click.IntRange(1), default=1, show_default=True, help="Requests served at once."),
        click.option("--context", type=Tokens(), help="Tokens of context for each user, such as 64k.  [default: 64k]"),
    ):
        function = option(function)
    return function


def port_option(function: F) -> F:
    return click.option(
        "--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True, help="Port on loopback."
    )(function)


def deployment_argument(function: F) -> F:
    return click.argument("deployment", required=False)(function)


def model_argument(function: F) -> F:
    return click.argument("model")(function)

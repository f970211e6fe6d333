"""Options that several verbs share, spelled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from upright.engines import OURS
from upright.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PORT = 8000
_LEAST_SECONDS = 0.1
_LARGEST = 1e15
_MODEL = (
    "MODEL is a name of the catalogue (kimi-k2.6; all of them: upright catalog list models), a repository "
    "(owner/repo[@revision][:QUANT]), a GGUF file, or a model's folder."
)
RANKS = click.IntRange(1, 256)
"""Ranks or stages that a person may ask for: every one of them is planned."""


class Number(click.FloatRange):
    """A number that can be reckoned with: neither nan nor inf, nor beyond any machine."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not abs(number) < _LARGEST:
            self.fail(f"{value} is no number of anything", param, ctx)
        return float(number)


class Tokens(click.ParamType[int]):
    """65536 or 64k."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from upright.units import parse_tokens

        try:
            return parse_tokens(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Measure(click.ParamType[float]):
    """A number with its unit, of a quantity that `units` parses."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from upright.units import MEASURES

        try:
            number = value if isinstance(value, float) else MEASURES[self.name](str(value))
        except ValueError as error:
            if (of_processor := _processor(self.name, str(value))) is None:
                self.fail(str(error), param, ctx)
            return of_processor
        if not 0 < number < _LARGEST:
            self.fail(f"{value} is out of range", param, ctx)
        return number


def _processor(measure: str, name: str) -> float | None:
    """A processor's name stands for the bandwidth of its system RAM."""
    if measure != "bandwidth":
        return None
    from upright.requesting.processors import processor_bandwidth_gb

    return processor_bandwidth_gb(name)


class EngineName(click.ParamType[str]):
    """vLLM is vllm, llamacpp is llama.cpp; what is no engine is left to the plan, which knows them all."""

    name = "engine"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from upright.engines import ENGINES

        spelled = {_letters(name): name for name in ENGINES}
        return spelled.get(_letters(str(value)), str(value))


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


engine_option = click.option(
    "--engine", type=EngineName(), help=f"Only this engine: {', '.join(OURS)}, or one that a package brings."
)


class Seconds(click.ParamType[float]):
    """90s, 30m or 2h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from upright.units import parse_duration

        try:
            return value if isinstance(value, float) else parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Numbers(click.ParamType[tuple[int, ...]]):
    """1,4,16: whole numbers, rising."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers; write 1,4,16", param, ctx)
        if min(numbers) < 1:
            self.fail(f"{min(numbers)} requests at once make no load; the least is 1", param, ctx)
        return tuple(sorted(set(numbers)))


class Address(click.ParamType[str]):
    """Where a server answers; one with a password in it is refused before anything repeats it."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from upright.endpoint.address import plain_address

        return plain_address(str(value))


class RungName(click.ParamType[str]):
    """A rung of the ladder; refused before anything is connected to."""

    name = "rung"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from upright.proving.ladder import rung_names

        if value not in rung_names():
            self.fail(f"no rung is named {value}; they are {', '.join(rung_names())}", param, ctx)
        return str(value)


def to_option(function: F) -> F:
    return click.option("--to", type=RungName(), default="smoke", show_default=True, help="The last rung to climb.")(
        function
    )


def often_enough(seconds: float) -> float:
    """Engines are asked this often: more would be a load of its own."""
    if seconds < _LEAST_SECONDS:
        raise UsageError(f"{seconds:g} s between two readings is too short", hint="--every 1s")
    return seconds


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


def typed(name: str) -> bool:
    """Whether the person said so, in words or in the environment."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def given(*names: str) -> list[str]:
    """The options of this call that the person typed, as words of the next command."""
    context = click.get_current_context()
    arguments: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        if name in names and isinstance(option, click.Option) and typed(name):
            typed_value = context.params[name]
            if option.is_flag:
                arguments.append(
                    _spelling(option.opts if typed_value or not option.secondary_opts else option.secondary_opts)
                )
                continue
            for entry in typed_value if option.multiple else (typed_value,):
                arguments += [_spelling(option.opts), _word(entry)]
    return arguments


def _spelling(names: Sequence[str]) -> str:
    """The first long one: later ones are older spellings of the same."""
    return next((name for name in names if name.startswith("--")), names[0])


def _word(value: Any) -> str:
    """As a person types it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}={_word(member)}" for name, member in value.items())
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else str(value)
    return str(value)


def deployment_argument(function: F) -> F:
    return click.argument("deployment", required=False)(function)


def model_argument(function: F) -> F:
    """MODEL, and what it may be in the help of a verb that does not say it itself."""
    help_text = cleandoc(function.__doc__ or "")
    function.__doc__ = help_text if "MODEL is" in help_text else f"{help_text}\n\n{_MODEL}"
    return click.argument("model", callback=said)(function)


def said(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A name that is empty would mean the folder that one is in."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty", context, parameter)
    return value

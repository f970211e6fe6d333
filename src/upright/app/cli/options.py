"""Options that several verbs share, spelled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from upright.base import units
from upright.base.errors import UsageError
from upright.base.terminal.messages import say
from upright.engines import OURS

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Named = TypeVar("Named", bound="str | tuple[str, ...] | None")

DEFAULT_PORT = 8000
_LEAST_SECONDS = 0.1
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
        if not abs(number) < units.LARGEST:
            self.fail(f"{value} is no number of anything", param, ctx)
        return float(number)


class ParsedType(click.ParamType[T]):
    """What another room reads from a word; a default that is read already is left as it is."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name, self.read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            return self.read(value) if isinstance(value, str) else cast(T, value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _of_a_machine(read: Callable[[str], float]) -> Callable[[str], float]:
    def amount(text: str) -> float:
        if not 0 < (number := read(text)) < units.LARGEST:
            raise ValueError(f"{text} is out of range")
        return number

    return amount


def _bandwidth(text: str) -> float:
    """A processor's name stands for the bandwidth of its system RAM."""
    try:
        return units.parse_bandwidth(text)
    except ValueError:
        from upright.planning.requests.processors import processor_bandwidth_gb

        if (of_processor := processor_bandwidth_gb(text)) is None:
            raise
        return of_processor


def _engine(text: str) -> str:
    """vLLM is vllm, llamacpp is llama.cpp; what is no engine is left to the plan, which knows them all."""
    from upright.engines import ENGINES

    return {_letters(name): name for name in ENGINES}.get(_letters(text), text)


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _address(text: str) -> str:
    """One with a password in it is refused before anything repeats it."""
    from upright.serving.endpoint.address import without_credentials

    return without_credentials(text)


def _rung(text: str) -> str:
    """Refused before anything is connected to."""
    from upright.proof.ladder.ladder import rung_names

    if text not in rung_names():
        raise ValueError(f"no rung is named {text}; they are {', '.join(rung_names())}")
    return text


TOKENS = ParsedType("tokens", units.parse_tokens)
SECONDS = ParsedType("time", units.parse_duration)
COUNTS = ParsedType("numbers", units.parse_counts)
MEMORY = ParsedType("memory", _of_a_machine(units.parse_memory))
BANDWIDTH = ParsedType("bandwidth", _of_a_machine(_bandwidth))
ENGINE = ParsedType("engine", _engine)
ADDRESS = ParsedType("url", _address)
RUNG = ParsedType("rung", _rung)

engine_option = click.option(
    "--engine", type=ENGINE, help=f"Only this engine: {', '.join(OURS)}, or one that a package brings."
)


def to_option(function: F) -> F:
    return click.option("--to", type=RUNG, default="smoke", show_default=True, help="The last rung to climb.")(function)


def checked_interval(seconds: float) -> float:
    """Engines are asked this often: more would be a load of its own."""
    if seconds < _LEAST_SECONDS:
        raise UsageError(f"{seconds:g} s between two readings is too short", hint="--every 1s")
    return seconds


def goal_options(function: F) -> F:
    """--context, --users: what the person wants."""
    for option in (
        click.option("--users", type=click.IntRange(1), default=1, show_default=True, help="Requests served at once."),
        click.option("--context", type=TOKENS, help="Tokens of context for each user, such as 64k.  [default: 64k]"),
    ):
        function = option(function)
    return function


def port_option(function: F) -> F:
    return click.option(
        "--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True, help="Port on loopback."
    )(function)


def was_typed(name: str) -> bool:
    """Whether the person said so, in words or in the environment."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def typed_words(*names: str) -> list[str]:
    """The options of this call that the person typed, as words of the next command."""
    context = click.get_current_context()
    arguments: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        if name in names and isinstance(option, click.Option) and was_typed(name):
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
    return click.argument("model", callback=_model)(function)


def _model(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """As the catalogue and the hub call it, so that the next command does too."""
    from upright.facts import catalog

    if refuse_empty(context, parameter, value) is None or value is None or context.resilient_parsing:
        return value
    if (meant := catalog.model_as_typed(value)) != value:
        say(f"note: {value} is {meant} here")
    return meant


def refuse_empty(context: click.Context, parameter: click.Parameter, value: Named) -> Named:
    """A name that is empty would mean the folder that one is in."""
    names = value if isinstance(value, tuple) else (value,)
    if any(name is not None and not name.strip() for name in names):
        raise click.BadParameter("it is empty", context, parameter)
    return value

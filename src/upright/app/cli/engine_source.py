"""Options that name an engine's files and the Triton that compiles them."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from upright.app.cli.options import ENGINE
from upright.app.cli.output import say
from upright.base.terminal.safe_output import mark_trusted

F = TypeVar("F", bound=Callable[..., Any])

_ENGINE = (
    click.option("--engine", type=ENGINE, required=True, help="Whose kernels: an engine that has some in Triton."),
    click.option("--engine-version", metavar="V", help="A released version; only its Python files are fetched."),
    click.option("--env", "environment", metavar="DIR", help="The environment that holds the engine."),
    click.option("--source", "place", metavar="PATH", help="A wheel, or a directory that holds the package."),
    click.option("--image", metavar="IMAGE", help="A container image that holds the engine."),
)
_COMPILER = (
    click.option("--python", metavar="PYTHON", help="A Python that has Triton, if the environment has none."),
    click.option("--limit", "limit_seconds", default=90.0, show_default=True, help="Seconds that a compile may take."),
)


def engine_options(*, compiles: bool = True) -> Callable[[F], F]:
    """The function receives `source`, and `compiler` if it compiles."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(
            engine: str,
            engine_version: str | None,
            environment: str | None,
            place: str | None,
            image: str | None,
            **arguments: Any,
        ) -> Any:
            from upright.proof.kernels import Compiler, find_source, interpreter, plain_interpreter
            from upright.proof.kernels.sources import is_fetched

            holder = plain_interpreter(environment)
            if compiles:
                limit_seconds, named = arguments.pop("limit_seconds"), arguments.pop("python")
                compiling = interpreter(environment, named)
                options = ("--python", named) if named else ()
                arguments["compiler"] = Compiler(compiling, limit_seconds, tell=_progress(), options=options)
                holder = holder if environment else compiling
            if engine_version and not (place or image) and not is_fetched(engine, engine_version, holder):
                say(f"fetching the Python files of {engine} {engine_version}")
            source = find_source(engine, version=engine_version, source=place, image=image, environment=holder)
            return function(source=source, **arguments)

        decorated: Any = wrapper
        for option in reversed([*_ENGINE, *(_COMPILER if compiles else ())]):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _progress() -> Callable[[int, int], None] | None:
    """One line that counts, for people who watch; nothing for pipes."""
    if not sys.stderr.isatty():
        return None
    started = time.monotonic()

    def tell(done: int, of: int) -> None:
        from upright.base.units import format_duration

        left = (time.monotonic() - started) / done * (of - done)
        progress_line = f"compiled {done} of {of}, about {format_duration(left)} left" if done < of else ""
        click.echo(mark_trusted(f"\r\033[K{progress_line}"), err=True, nl=False)

    return tell

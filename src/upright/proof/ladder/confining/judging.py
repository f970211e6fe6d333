"""Our assertions + values from the code that is judged -> a word that only this process was told, or why not.

Runs apart from the code: another process, behind walls of its own. Names of the code stand for objects over there; what
their calls return is compared here, with Python's own types.
"""

from __future__ import annotations

import json
import os
import sys

from upright.proof.ladder.confining.plain import ChannelError, EndedError, decode, encode, printable, receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_RAISED: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ArithmeticError, AttributeError, IndexError, KeyError, LookupError, NotImplementedError, OverflowError,
        TypeError, ValueError, ZeroDivisionError,
    )
}  # fmt: skip
"""What an assertion may wait for; any other error of the code is an AnswerError."""


class AnswerError(Exception):
    """The code failed in a way that no assertion waits for."""


class JudgedCode:
    """The code on the other side of two pipes."""

    def __init__(self, asks: int, answers: int) -> None:
        self._asks, self._answers = asks, answers

    def module(self, name: str) -> Any:
        return self._ask({"import": name})

    def attribute(self, number: int, name: str) -> Any:
        return self._ask({"get": [number, name]})

    def called(self, number: int, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        arguments = [encode(argument, _number) for argument in positional]
        return self._ask(
            {"call": [number, arguments, {name: encode(argument, _number) for name, argument in named.items()}]}
        )

    def _ask(self, request: dict[str, Any]) -> Any:
        try:
            send(self._asks, request)
        except BrokenPipeError:
            raise EndedError("it ended") from None
        reply = receive(self._answers)
        if "error" in reply:
            raise _error(reply["error"])
        try:
            return decode(reply.get("value"), lambda number: Remote(self, number))
        except (TypeError, ValueError, RecursionError) as error:
            raise ChannelError(f"not plain data: {error}") from None


class Remote:
    """An object over there. It can be called and asked for its parts; only plain data can be compared."""

    __slots__ = ("_number", "_subject")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, subject: JudgedCode, number: int) -> None:
        self._subject, self._number = subject, number

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._subject.called(self._number, positional, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._subject.attribute(self._number, name)

    def __bool__(self) -> bool:
        raise AnswerError("it is an object, and only plain data is compared")

    def __eq__(self, other: object) -> bool:
        raise AnswerError("it is an object, and only plain data is compared")


class _There(type(sys)):  # type: ignore[misc]
    """A module whose names are over there."""

    def __init__(self, name: str, remote: Any) -> None:
        super().__init__(name)
        self._remote = remote

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)


def judge(
    asks: int, answers: int, verdict: int, *, assertions: str, names: Sequence[str], modules: Sequence[str], word: str
) -> None:
    """`names` are of the first module; further ones are imported by the assertions themselves."""
    try:
        run(JudgedCode(asks, answers), assertions, names, modules)
    except BaseException as error:
        told: dict[str, Any] = {"failed": _why(error, assertions), "ended": isinstance(error, EndedError)}
    else:
        told = {"word": word}
    os.write(verdict, json.dumps(told).encode() + b"\n")
    os._exit(0)


def run(subject: JudgedCode, assertions: str, names: Sequence[str], modules: Sequence[str]) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    for name in modules:
        sys.modules[name] = _There(name, subject.module(name))
    for name in names:
        try:
            space[name] = getattr(sys.modules[modules[0]], name)
        except AttributeError:
            raise NameError(f"name '{name}' is not defined") from None
    exec(compile(assertions, _TITLE, "exec"), space)  # noqa: S102 (our own)


_TITLE = "<assertions>"


def _error(told: Any) -> Exception:
    if not (isinstance(told, list) and len(told) == 2):
        return ChannelError("an error without words")
    kind, message = (printable(str(part)) for part in told)
    return _RAISED[kind](message.removeprefix(f"{kind}: ")) if kind in _RAISED else AnswerError(message)


def _why(error: BaseException, assertions: str) -> str:
    """The error's words; of an assertion that has none its own line."""
    if isinstance(error, AnswerError | ChannelError):
        return printable(str(error))
    message, step = str(error), error.__traceback__
    while isinstance(error, AssertionError) and not message and step is not None:
        if step.tb_frame.f_code.co_filename == _TITLE and step.tb_next is None:
            message = assertions.splitlines()[step.tb_lineno - 1].strip()
        step = step.tb_next
    return printable(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _number(remote: Any) -> int:
    if not isinstance(remote, Remote):
        raise TypeError(f"a {type(remote).__name__} cannot be sent to the code")
    return object.__getattribute__(remote, "_number")  # type: ignore[no-any-return]

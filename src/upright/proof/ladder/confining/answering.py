"""Files of foreign code + questions from the judge -> values as plain data. Trusted with nothing."""

from __future__ import annotations

import os

from upright.proof.ladder.confining.plain import EndedError, decode, encode, printable, receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOLD_CHARACTERS = 300


def serve(asks: int, answers: int, files: dict[str, str]) -> None:
    """Until the judge ends. Whatever the code does here, it can only send values that the judge compares."""
    kept: list[Any] = []
    unwritten = _write(files)

    def keep(thing: Any) -> int:
        kept.append(thing)
        return len(kept) - 1

    while True:
        try:
            request = receive(asks)
        except EndedError:
            os._exit(0)
        try:
            send(answers, {"value": encode(_done(request, kept, unwritten), keep)})
        except BaseException as error:
            send(answers, {"error": _told(error)})


def _write(files: dict[str, str]) -> Exception | None:
    """Into this folder; what does not fit into it is the code's own failure."""
    try:
        for name, content in files.items():
            if folder := os.path.dirname(name):
                os.makedirs(folder, exist_ok=True)
            with open(name, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(content)
    except (OSError, ValueError) as error:  # a name may be no text
        return error
    return None


def _done(request: dict[str, Any], kept: list[Any], unwritten: Exception | None) -> Any:
    if unwritten is not None:
        raise unwritten
    if "import" in request:
        return __import__(request["import"], fromlist=["*"])
    if "get" in request:
        number, name = request["get"]
        return getattr(kept[number], name)
    number, positional, named = request["call"]
    arguments = [decode(argument, kept.__getitem__) for argument in positional]
    return kept[number](*arguments, **{name: decode(argument, kept.__getitem__) for name, argument in named.items()})


def _told(error: BaseException) -> list[str]:
    """The nearest of Python's own classes, and the error's message."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    try:
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except BaseException:
        message = type(error).__name__
    return [kinds[0], printable(message, _TOLD_CHARACTERS)]

"""Command lines on stdin -> the verdict of the engine's own parser on each, as JSON. Runs where the engine is.

Input: a list of command lines, each a list of settings, each a list of words. Output: for each command line the
settings that were refused, as [words, message]. After a refusal the setting is left out and the rest is judged. The
engine's own file is the first argument: its `parser` takes `attempt` and gives what judges.
"""

import contextlib
import io
import json
import re
import runpy
import sys
from collections.abc import Callable

Words = list[str]
MOST_REFUSALS = 20
LEAST_TELLING_LETTERS = 4


def main() -> None:
    lines = json.load(sys.stdin)
    talk = io.StringIO()
    with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
        parse = runpy.run_path(sys.argv[1])["parser"](attempt)
        verdicts = [refusals(parse, line) for line in lines]
    json.dump(verdicts, sys.stdout)


def refusals(parse: Callable[[Words], str | None], settings: list[Words]) -> list[tuple[Words, str]]:
    refused: list[tuple[Words, str]] = []
    left = list(settings)
    while len(refused) < MOST_REFUSALS:
        message = parse([word for setting in left for word in setting])
        if message is None:
            return refused
        blamed = blame(message, left)
        refused.append((blamed or [], message))
        if blamed is None:
            return refused
        left.remove(blamed)
    return refused


def blame(message: str, settings: list[Words]) -> Words | None:
    """The setting that a message names; else one whose value it repeats, if that is too long to be there by chance."""
    named = re.findall(r"--?[a-zA-Z][\w.-]*", message)
    for name in named:
        for setting in settings:
            if setting[0] == name:
                return setting
    for setting in settings:
        operand = setting[1] if len(setting) > 1 else ""
        if len(operand) >= LEAST_TELLING_LETTERS and re.search(rf"(?<!\w){re.escape(operand)}(?!\w)", message):
            return setting
    return None


def attempt(parse: Callable[[Words], object], words: Words) -> str | None:
    """None if the words are taken, else what the parser says."""
    talk = io.StringIO()
    try:
        with contextlib.redirect_stderr(talk):
            parse(words)
    except SystemExit:
        error_text = " ".join(talk.getvalue().rpartition("error:")[2].split())
        return error_text[:600] or "refused without a word"
    except Exception as error:  # whatever the engine raises is its verdict
        return " ".join(str(error).split())[:600] or type(error).__name__
    return None


if __name__ == "__main__":
    main()

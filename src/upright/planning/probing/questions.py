"""Asks a machine many questions in one round trip.

Every module of this room names the commands it reads and parses their output; none of them runs anything. So a probe
over ssh costs two round trips, and every parser can be tested on recorded text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

from upright.base.host import Host, Result

Questions = Mapping[str, Sequence[str]]
Answers = Mapping[str, Result]

NOT_ASKED = Result(127, "", "not asked")


def ask(host: Host, questions: Questions, *, timeout_seconds: float = 30) -> Answers:
    names = list(questions)
    results = host.gather([list(questions[name]) for name in names], timeout_seconds=timeout_seconds)
    return dict(zip(names, results, strict=True))


def script(label: str, text: str) -> tuple[str, ...]:
    """A few lines of POSIX sh; the label is `$0`, and it is what a recording knows the script by."""
    return ("sh", "-c", dedent(text).strip(), label)


def output_of(answers: Answers, name: str) -> str | None:
    """The output of a command that succeeded; None if it did not."""
    answer = answers.get(name, NOT_ASKED)
    return answer.out if answer.ok and answer.out.strip() else None


def rows(answers: Answers, name: str, width: int) -> list[list[str]]:
    """The tab-separated lines of an answer that have this many columns."""
    lines = [line.split("\t") for line in (output_of(answers, name) or "").splitlines()]
    return [line for line in lines if len(line) == width]

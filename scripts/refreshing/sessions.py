"""A page and what its commands print today -> the page with today's lines, `…` kept where it still fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from scripts.refreshing.moved import masked
from tests.docs.sessions import BLOCK, EXIT, agrees

ELLIPSIS = "…"
Alignment = tuple[int, tuple[str, ...]]
"""What it costs, and the lines that it gives."""
Run = Callable[[str], tuple[int, list[str]]]
"""A command to its exit code and the lines that it printed."""


def refreshed(text: str, run: Run) -> tuple[str, list[str]]:
    """The page's new text, and commands that ended otherwise than it says: these are for a person to look at."""
    strange: list[str] = []

    def anew(block: re.Match[str]) -> str:
        made: list[str] = []
        for part in re.split(r"^(?=\$ )", block[1], flags=re.MULTILINE):
            if part:
                command, *shown = part.splitlines()
                made += [command, *_output(command[2:], shown, run, strange)]
        return "\n".join(["```console", *made, "```"])

    return BLOCK.sub(anew, text), strange


def _output(command: str, shown: list[str], run: Run, strange: list[str]) -> list[str]:
    code, printed = run(command)
    told = EXIT.fullmatch(shown[-1]) if shown else None
    body = shown[:-1] if told else shown
    if code != (int(told[1]) if told else 0):
        strange.append(f"$ {command}: exit code {code}")
        return shown
    return shown if agrees(tuple(body), printed) else [*aligned(body, printed), *shown[len(body) :]]


def aligned(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """What was printed, in the form of what was shown: a line of `…` stands for as many lines as before."""
    best: list[Alignment] = [(4 * (len(printed) - right), tuple(printed[right:])) for right in range(len(printed) + 1)]
    for line in reversed(shown):  # the best from this line on, by where in the printed ones it begins
        gap = line == ELLIPSIS
        later, best = best, [_plus(best[-1], 0 if gap else 4, (line,) if gap else ())]
        for right in range(len(printed) - 1, -1, -1):
            skipped = _plus(best[0], 0, ()) if gap else _plus(best[0], 4, (printed[right],))
            dropped = _plus(later[right], 0 if gap else 4, (line,) if gap else ())
            best.insert(0, min(dropped, skipped, *_if_taken(line, printed[right], later[right + 1])))
    return list(best[0][1])


def _plus(rest: Alignment, cost: int, lines: tuple[str, ...]) -> Alignment:
    return rest[0] + cost, lines + rest[1]


def _if_taken(line: str, printed: str, rest: Alignment) -> list[Alignment]:
    if line == ELLIPSIS:
        return []
    cost, made = _taken(line, printed)
    return [_plus(rest, cost, (made,))]


def _taken(shown: str, printed: str) -> tuple[int, str]:
    """What it costs to take the one for the other, and the line that the page has then."""
    if agrees((shown,), [printed]):
        return 0, shown
    if agrees((masked(shown),), [masked(printed)]):
        return 1, _with_gaps(shown, printed)
    return 6, printed


def _with_gaps(shown: str, printed: str) -> str:
    """The printed line, with `…` for what the page leaves out of it."""
    if ELLIPSIS not in shown:
        return printed
    parts = [re.sub(r"\\?\d[\d,]*(?:\\?\.\d+)?", r"\\d[\\d,.]*", re.escape(part)) for part in shown.split(ELLIPSIS)]
    parts = [re.sub(r"(\\ )+", r"\\s+", part) for part in parts]
    found = re.fullmatch(".*".join(f"({part})" for part in parts), printed)
    return ELLIPSIS.join(found.groups()) if found else printed

"""Lines that somebody's terminal or chat window broke -> the lines as they were, for a text of the size of a paste.

Only the halves that no row claims are put together again, so that nothing is claimed twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from upright.serving.diagnose import lines, marks

MOST_LINES = 2_000
_MOST_PIECES = 6
_MOST_BETWEEN = 3
"""Lines of others that may stand between the halves of a broken one."""
_OF_A_TRACEBACK = re.compile(r"^(?:Traceback \(most recent call last\)|\s*File \"|\s*[\^~]+\s*$|\s+\w+.*[(=])")


def rejoined(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The place of the first half (from 0) and the whole, with a space where it was broken and without one."""
    for place, text in enumerate(texts[:MOST_LINES]):
        if lines.is_harmless(text):
            continue
        pieces = [lines.said(text).strip(), *_rest_of(text, texts[place + 1 : place + _MOST_PIECES + _MOST_BETWEEN])]
        if len(pieces) > 1 and pieces[0]:
            yield place, " ".join(pieces)
            yield place, "".join(pieces)


def _rest_of(first: str, texts: Sequence[str]) -> list[str]:
    """The pieces that go on what was broken off, past what another process quietly logged in between."""
    pieces: list[str] = []
    between = 0
    for following in texts:
        if _goes_on(following, first):
            pieces.append(lines.said(following).strip())
        elif between < _MOST_BETWEEN and lines.begins(following) and lines.is_harmless(following):
            between += 1
        else:
            break
    return pieces[: _MOST_PIECES - 1]


def _goes_on(following: str, first: str) -> bool:
    """A half that has no beginning of its own, or the next line of what the same process says."""
    plain = lines.said(following)
    if not plain.strip() or _OF_A_TRACEBACK.match(plain) or marks.EXCEPTION.match(plain):
        return False
    return not lines.begins(following) or (lines.begins(first) and lines.rank_of(following) == lines.rank_of(first))

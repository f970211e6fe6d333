"""A text -> a flood, a loop, a drift into another writing system; or nothing.

Sane texts hold rulers, tables, zero matrices, long lists and base64: what repeats is broken only if it goes on for
longer than those do, or until the answer was cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

# Rulers of prose and code (-----, =====, ....) are allowed to be longer than anything else; so are runs of letters:
# base64 of zero bytes is all A.
_FLOOD = re.compile(r"([^\s\w\-=_*#~.+/|─━═·•█░▒▓])\1{23,}|(\S)\2{199,}")
_ANCHOR_CHARACTERS = 12
_ANCHOR_STRIDE = 16
_LONGEST_PERIOD = 4_000
_WINDOW_LETTERS = 400


def flood(text: str) -> str | None:
    flood_match = _FLOOD.search(text)
    return f"a flood of {flood_match[0][0]!r}, {len(flood_match[0])} times" if flood_match else None


def loop(text: str, *, cut: bool = False) -> str | None:
    """A unit of 2 to 4,000 characters, over and over. `cut`: the answer ended for want of room, as loops do."""
    start = 0
    while start + 2 * _ANCHOR_CHARACTERS <= len(text):
        anchor = text[start : start + _ANCHOR_CHARACTERS]
        again = text.find(anchor, start + 1, start + _LONGEST_PERIOD + _ANCHOR_CHARACTERS)
        if again > 0:
            unit = text[start:again]
            end = _run_end(text, start, again - start)
            length = end - _run_begin(text, start, again - start)
            if _is_loop(unit, length, at_end=cut and len(text) - end < len(unit)):
                return f"a loop of {_shown(unit)!r}, {length // len(unit)} times"
            if end - start > 2 * len(unit):
                start = max(start + _ANCHOR_STRIDE, end - len(unit))
                continue
        start += _ANCHOR_STRIDE
    return None


def drift(text: str, scripts: tuple[str, ...]) -> str | None:
    """Letters of a writing system that nobody asked for: a tenth of any stretch of 400 letters, and at least eight."""
    if text.isascii():
        return None
    letters = [_script(letter) for letter in text if letter.isalpha()]
    allowed = {*scripts, "Greek", "Common"}  # Greek letters are mathematics
    for begin in range(0, len(letters), _WINDOW_LETTERS):
        window = letters[begin : begin + _WINDOW_LETTERS]
        foreign = Counter(script for script in window if script not in allowed)
        if foreign and sum(foreign.values()) >= max(8, len(window) // 10):
            script, count = foreign.most_common(1)[0]
            return f"{count} {script} letters among {len(window)}, where {' and '.join(scripts)} was expected"
    return None


def _run_end(text: str, start: int, period: int) -> int:
    """Where the repetition that begins at `start` ends: the last place that equals what is one period before it."""
    end, step = start + period, period
    while text.startswith(text[end - period : end - period + step], end) and end + step <= len(text):
        end += step
        step = min(2 * step, end - start)
    while end < len(text) and text[end] == text[end - period]:
        end += 1
    return end


def _run_begin(text: str, start: int, period: int) -> int:
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return start


def _is_loop(unit: str, length: int, *, at_end: bool) -> bool:
    times = length / len(unit)
    if len(set(unit)) == 1:
        return False  # a ruler, or a flood
    if any(character.isalpha() for character in unit):
        if at_end:
            return times >= 4 and length >= 96
        return times >= 8 and length >= (96 if len(unit) < 80 else 480)
    # Numbers and signs: zero matrices, rulers of tables, hex dumps of nothing.
    return times >= 40 and length >= (400 if at_end else 2_000)


def _shown(unit: str) -> str:
    return unit if len(unit) <= 60 else f"{unit[:57]}..."


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    if letter.isascii():
        return "Latin"
    name = unicodedata.name(letter, "")
    word = name.partition(" ")[0]
    known = {"CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HANGUL": "Hangul", "LATIN": "Latin", "": "unknown"}
    if word in ("MODIFIER", "MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "FULLWIDTH", "FEMININE", "MASCULINE", "MICRO"):
        return "Common"
    return known.get(word, word.capitalize())

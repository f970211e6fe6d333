"""Untrusted text made safe to print: control, invisible and direction characters are escaped.

A header, an answer, a log, a name: each may hold escapes that set a clipboard or clear a screen, letters without width,
and marks that turn the rest of a line round. Here is what such characters are; who shows text decides.
"""

from __future__ import annotations

import re

from upright.base.errors import UsageError

LONGEST_NAME = 4096
"""Characters of a name: as many as Linux takes bytes of a path."""
LONGEST_VALUE = 300
"""Characters of another's words within a sentence of ours."""

# Controls but tab and line feed; the invisible; what turns the direction of writing; halves of surrogate pairs.
_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HALVES = "\ud800-\udfff"
_UNSAFE = re.compile(f"[{_OBEYED}{_UNSEEN}{_TURNING}{_HALVES}]")
_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_HALVES}]")
_BREAKS = re.compile(r"[ \t]*[\r\n\t][ \r\n\t]*")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# A joiner is a letter's own in the scripts of Arabia and India, and between two pictures of an emoji.
_JOINER = re.compile(
    "(?<=[\u0600-\u08ff\u0900-\u0dff])[\u200c\u200d](?=[\u0600-\u08ff\u0900-\u0dff])"
    "|(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2600-\u27bf\U0001f000-\U0001faff])"
)


def escape_controls(text: str) -> str:
    r"""The same text with every such character by its number, as JSON writes it (\u001b): JSON stays what it is.

    Line feeds and tabs stay, and so do letters of every script; another's colours are left out.
    """
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if _UNSAFE.search(text) is None:
        return text
    joiners = {match.start() for match in _JOINER.finditer(text)} if "\u200c" in text or "\u200d" in text else ()
    return _UNSAFE.sub(lambda match: match[0] if match.start() in joiners else escape_character(match[0]), text)


def on_one_line(text: str, longest: int = LONGEST_VALUE) -> str:
    """For a value inside a line of ours: no line of its own, and cut where nobody would read on."""
    shown = escape_controls(_BREAKS.sub(" ", text[:longest].strip(" \r\n\t")))
    return shown if len(text) <= longest else f"{shown}… ({len(text):,} characters)"


def escape_character(character: str) -> str:
    """By its number; beyond the first 65,536 by the two halves that JSON writes."""
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + ((code - 0x10000) >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def name_fault(name: str, longest: int = LONGEST_NAME) -> str | None:
    """Why this cannot be the name of anything; None if it can."""
    if len(name) > longest:
        return f"it has {len(name):,} characters"
    if (control_match := _CONTROL.search(name)) is None:
        return None
    if "\ud800" <= control_match[0] <= "\udfff":
        return "it is not UTF-8"
    return f"it holds a control character, {escape_character(control_match[0])}"


def checked_name(name: str, longest: int = LONGEST_NAME) -> str:
    """The same name. UsageError if a control character is in it, or if it is longer than any path."""
    if (why := name_fault(name, longest)) is not None:
        shown = escape_controls(name[:80]).replace("\n", "\\u000a")
        raise UsageError(f"'{shown}' cannot be a name: {why}", hint="rename it, or link to it by a plain name")
    return name

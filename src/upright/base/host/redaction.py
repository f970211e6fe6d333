"""Text with names in it -> text without them.

A recording is made to be attached to a public issue: what identifies a person, a machine or a network goes; what
describes the hardware stays.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_UUID = re.compile(r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_SHORT_UUID = re.compile(r"\b(UUID=)[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}\b")
_MAC = re.compile(r"\b[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}\b")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*(?![\w:])")
_SERIAL = re.compile(r"(?im)^(.*\b(?:serial(?:[ _]?(?:number|no))?|asset[ _]?tag|service[ _]?tag)\s*[:=][ \t]*)(\S.*)$")
_TOKEN = re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_|nvapi-|glpat-|xox[abp]-)[\w-]{8,}")
_HOME = re.compile(r"(/(?:home|Users|var/home|export/home)/)([^/\s:'\"]+)")
_SHARE = re.compile(r"(?m)(?:^|(?<=\t))(?:[^\s:/]+(?=:/[^/])|//[^\s/]+)")
_HARMLESS_SERIALS = {"not specified", "unknown", "none", "n/a", "[n/a]", "to be filled by o.e.m."}
_KEPT_NAMES = {"root", "localhost", "box", "user", "ubuntu"}


@dataclass(frozen=True)
class IdentityRedaction:
    """Removes the given names wherever they stand as words, and everything that has the shape of an identity."""

    hosts: Sequence[str]
    users: Sequence[str]

    def __call__(self, text: str) -> str:
        for pattern, put in _SHAPES:
            text = pattern.sub(put, text)
        text = _words(text, _names(self.hosts, dotted=True), "box")
        return _words(text, _names(self.users, dotted=False), "user")


def _names(names: Iterable[str], *, dotted: bool) -> list[str]:
    """The longest first; a full host name also gives its short form and its domain."""
    known_names = {name for name in names if name}
    if dotted:
        known_names |= {
            part for name in known_names for part in (name.partition(".")[0], name.partition(".")[2]) if part
        }
    return sorted((name for name in known_names if name.lower() not in _KEPT_NAMES), key=len, reverse=True)


def _words(text: str, names: Iterable[str], put: str) -> str:
    for name in names:
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", put, text, flags=re.IGNORECASE)
    return text


def _address(match: re.Match[str]) -> str:
    try:
        address = ipaddress.ip_address(match[0])
    except ValueError:
        return match[0]
    if address.is_loopback or address.is_unspecified:
        return match[0]
    return "192.0.2.1" if address.version == 4 else "2001:db8::1"


def _serial(match: re.Match[str]) -> str:
    return match[0] if match[2].strip().lower() in _HARMLESS_SERIALS else f"{match[1]}REDACTED"


_SHAPES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_TOKEN, "REDACTED"),
    (_SERIAL, _serial),
    (_UUID, "00000000-0000-0000-0000-000000000000"),
    (_SHORT_UUID, r"\g<1>0000-0000"),
    (_MAC, "02:00:00:00:00:00"),
    (_IPV4, _address),
    (_IPV6, _address),
    (_HOME, r"\1user"),
    (_SHARE, "server"),
)

"""Redacts keys, and who and where their owner is, from text and data.

What is known is replaced wherever it stands: the deployment's key, tokens of this environment, home, user, host. What
is not known is found by its shape: tokens, Authorization headers, credentials in addresses, public addresses.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

_SHORTEST_SECRET = 6
_SHORTEST_NAME = 4
_ORDINARY = frozenset({"admin", "debian", "localhost", "node", "nobody", "root", "server", "ubuntu", "user"})
_SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "a private key",  # no further than the next one begins, so that beginnings without an end cost nothing
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----BEGIN ).)*?-----END [A-Z ]{0,40}PRIVATE KEY-----",
            re.DOTALL,
        ),
    ),
    ("a token of the hub", re.compile(r"\bhf_[A-Za-z0-9]{16,}")),
    ("an API key", re.compile(r"\b(?:sk|pk)-[A-Za-z0-9_-]{12,}")),
    ("a token of GitHub", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}")),
    ("a key of AWS", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a header's credentials", re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{6,}")),
    ("a header's credentials", re.compile(r"(?i)(?<=basic )[A-Za-z0-9+/]{8,}={0,2}")),
    ("a header's credentials", re.compile(r"(?i)(?<=x-api-key: )\S{6,}")),
    ("credentials in an address", re.compile(r"(?<=://)[^\s/@:\"']+:[^\s/@\"']+(?=@)")),
    (
        "a secret by its name",
        re.compile(
            r"(?i)(?<![a-z0-9])(?:api[_-]?key|(?:access|auth|hf|hub)[_-]?token|passw(?:or)?d|secret)[\"']?\s*[=:]\s*[\"']?"
            r"(?P<value>[^\s\"',;{}\[\]]{6,})"
        ),
    ),
)
_HOMES = re.compile(r"(?<=/home/)[^/\s\"':,]+|(?<=/Users/)[^/\s\"':,]+")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b")
_COLOUR = r"(?:\x1b\[[\d;]*m)?"
_CLOCK = (
    r"(?:^|(?<=\dm)|(?<=\| )|(?<=\]: )|(?<=Z ))"
    rf"\d{{1,3}}\.\d\d\.\d{{3}}\.\d{{3}}{_COLOUR} {_COLOUR}[IWED] "
)
"""How a line of llama.cpp begins: minutes, seconds, milliseconds and microseconds, then its level (common/log.cpp)."""
_IPV4 = re.compile(rf"(?<![\d.])(?!{_CLOCK})(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?![\d.])", re.MULTILINE)
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{1,4}:[0-9a-fA-F:]{2,36}+(?![\w:.])")


@dataclass(frozen=True)
class KnownIdentities:
    """What this machine knows that others should not."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Value -> what it is."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Path -> what stands for it."""
    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


class Redactor:
    """Counts what it takes out."""

    def __init__(self, known: KnownIdentities) -> None:
        self.times: Counter[str] = Counter()
        self._secrets = sorted(
            ((secret, what) for secret, what in known.secrets.items() if len(secret) >= _SHORTEST_SECRET),
            key=lambda pair: -len(pair[0]),
        )
        self._folders = sorted(known.folders.items(), key=lambda pair: -len(pair[0]))
        self._exact = {**dict.fromkeys(known.users, "user"), **dict.fromkeys(known.hosts, "host")}
        self._names = [
            (what, re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])"))
            for name, what in sorted(self._exact.items(), key=lambda pair: -len(pair[0]))
            if len(name) >= _SHORTEST_NAME and name.lower() not in _ORDINARY
        ]

    def data(self, value: Any) -> Any:
        """JSON, with every text in it redacted; names of fields too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(name): self.data(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(member) for member in value]
        return value

    def text(self, text: str) -> str:
        if text in self._exact:
            return self._counted(f"the {self._exact[text]}'s name", f"[{self._exact[text]}]")
        for secret, what in self._secrets:
            if secret in text:
                self.times[what] += text.count(secret)
                text = text.replace(secret, "[redacted]")
        for what, pattern in _SECRETS:
            text = pattern.sub(partial(self._secret, what), text)
        for folder, stands_for in self._folders:
            if folder in text:
                text = re.sub(rf"{re.escape(folder)}(?![\w.-])", partial(self._path, stands_for), text)
        text = _HOMES.sub(self._user, text)
        for what, name in self._names:
            text = name.sub(partial(self._name, what), text)
        text = _MAIL.sub(lambda _: self._counted("a mail address", "[mail]"), text)
        text = _IPV4.sub(self._address, text)
        return _IPV6.sub(self._address, text)

    def _secret(self, what: str, found: re.Match[str]) -> str:
        secret = found.groupdict().get("value")
        if secret is None:
            return self._counted(what, "[redacted]")
        return found[0].removesuffix(secret) + self._counted(what, "[redacted]")

    def _path(self, stands_for: str, found: re.Match[str]) -> str:
        return self._counted("a folder of the user", stands_for)

    def _user(self, found: re.Match[str]) -> str:
        return self._counted("the user's name", "[user]")

    def _name(self, what: str, found: re.Match[str]) -> str:
        return self._counted(f"the {what}'s name", f"[{what}]")

    def _address(self, found: re.Match[str]) -> str:
        try:
            public = ipaddress.ip_address(found[0]).is_global
        except ValueError:
            return found[0]
        return self._counted("a public address", "[address]") if public else found[0]

    def _counted(self, what: str, stands_for: str) -> str:
        self.times[what] += 1
        return stands_for

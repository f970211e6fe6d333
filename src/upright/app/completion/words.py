"""What can be typed after `upright`, as plain words that no shell takes for anything else."""

from __future__ import annotations

import re
from dataclasses import dataclass

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]*")
"""A word that means itself in every shell. Others are not offered: names of a person's own rows may hold anything."""
DEPLOYMENTS = "deployments"
"""A list that the script looks up when it is asked for."""


@dataclass(frozen=True)
class OptionWords:
    names: tuple[str, ...]
    takes: str | None
    """The list of its values, `files` where any path may stand, None of a flag, `` where nothing can be offered."""
    summary: str


@dataclass(frozen=True)
class VerbWords:
    path: tuple[str, ...]
    summary: str
    options: tuple[OptionWords, ...]
    argument: str | None
    """The list that its first argument is of, as `takes`."""


@dataclass(frozen=True)
class Completion:
    verbs: tuple[VerbWords, ...]
    lists: dict[str, tuple[str, ...]]
    deployments_folder: str
    """Where they are when UPRIGHT_HOME does not say so."""

    def below(self, path: tuple[str, ...]) -> tuple[VerbWords, ...]:
        return tuple(verb for verb in self.verbs if verb.path[:-1] == path)


def plain(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if PLAIN.fullmatch(name)))


def quoted(text: str) -> str:
    """In single quotes, for all three shells; a summary is one line."""
    line = " ".join(text.split())
    return "'" + re.sub(r"['\\]", "’", line) + "'"


def variable(name: str) -> str:
    return "_upright_" + re.sub(r"[^a-z0-9]", "_", name.lower())

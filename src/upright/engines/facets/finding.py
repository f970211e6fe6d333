"""Where an engine is looked for on a machine, and how it tells what it is: questions as data, nothing is run here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_WORD = re.compile(r"[A-Za-z0-9][\w.+-]*")
_PLACE = re.compile(r"(?:\$HOME|/[\w.+*-]+)(?:/[\w.+*-]+)*")


@dataclass(frozen=True)
class ProgramFinding:
    """A program of its own, whose --version and --help cost nothing."""

    name: str
    version: str
    """A pattern of what --version prints: groups `build` and `commit`."""
    mark: str = ""
    """What is put before a build to make a version of it."""
    variable: str | None = None
    """The environment variable by which a person names it."""
    places: tuple[str, ...] = ()
    """Folders beside the usual ones: `$HOME/...` or `/...`."""
    only_flag: str | None = None
    """The flag by which it is known among others of the same name; None: it is the one without."""

    def __post_init__(self) -> None:
        _plain(_WORD, self.name, *filter(None, (self.variable,)))
        _plain(_PLACE, *self.places)


@dataclass(frozen=True)
class PackageFinding:
    """A Python package: its metadata tells the version, since importing it costs seconds and a CUDA context."""

    name: str
    """Its command."""
    module: str
    """What `python -m` starts where only the interpreter is found."""
    distributions: Mapping[str, str] = field(default_factory=dict)
    """Names on an index -> the mark that a version gets from that name, unless it has one; the last found counts."""
    help: tuple[str, ...] = ("--help",)
    """Words after the command that print all flags."""
    module_help: tuple[str, ...] = ("--help",)

    def __post_init__(self) -> None:
        _plain(_WORD, self.name, self.module, *self.distributions)


Finding = ProgramFinding | PackageFinding


def _plain(pattern: re.Pattern[str], *words: str) -> None:
    """They become words of a shell script on the machine that is looked at."""
    for word in words:
        if not pattern.fullmatch(word):
            raise ValueError(f"{word!r} cannot be looked for by a script")

"""The interface of a host: what probing and launching may ask of a machine.

A command that fails, hangs or does not exist is an answer, not an exception; only a machine that cannot be reached at
all raises HostError.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

COULD_NOT_START = 127
TIMED_OUT = 124
NEUTRAL_FOLDER = "/"
"""The folder that commands of ours are run in. An interpreter imports from the one it is started in, and a person may
stand in a model's folder, where `json.py` is anybody's."""


@dataclass(frozen=True)
class Result:
    """What a command left behind: code 127 if it could not be started, 124 if it took too long."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0


class Host(Protocol):
    """A machine. `gather` runs independent commands side by side and costs one round trip."""

    @property
    def name(self) -> str: ...
    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result: ...
    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]: ...
    def read_text(self, path: str) -> str | None: ...
    def which(self, program: str) -> str | None: ...


def with_absolute_program(argv: Sequence[str]) -> list[str]:
    """The same command, to be run in another folder: a program that is named by a path stays that one."""
    program, *arguments = argv
    return [os.path.abspath(program) if os.sep in program else program, *arguments]  # noqa: PTH100  links stay


def which_argv(program: str) -> list[str]:
    """The question where a program is, as every shell can answer it."""
    return ["sh", "-c", 'command -v "$1"', "which", program]

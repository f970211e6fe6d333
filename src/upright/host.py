"""Host: the one seam to machines. Commands and files, here (later: over the user's ssh, or from a recording)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Result:
    """What a command left behind. A command that could not be started has code 127."""

    code: int
    out: str
    err: str


class Host(Protocol):
    """What probing and launching may ask of a machine."""

    @property
    def name(self) -> str: ...
    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result: ...
    def read_text(self, path: str) -> str | None: ...
    def which(self, program: str) -> str | None: ...


class LocalHost:
    """This machine."""

    @property
    def name(self) -> str:
        return os.uname().nodename

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        try:
            done = subprocess.run(
                list(argv), capture_output=True, text=True, errors="replace", timeout=timeout_seconds, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Result(127, "", str(error))
        return Result(done.returncode, done.stdout, done.stderr)

    def read_text(self, path: str) -> str | None:
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    def which(self, program: str) -> str | None:
        return shutil.which(program)

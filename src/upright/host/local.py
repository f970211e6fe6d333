"""argv -> Result, on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from upright.host.contract import COULD_NOT_START, TIMED_OUT, Result

SIDE_BY_SIDE = 8


class LocalHost:
    """This machine."""

    @property
    def name(self) -> str:
        return os.uname().nodename

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(TIMED_OUT, "", f"{argv[0]} took longer than {timeout_seconds:g} s")
        except OSError as error:
            return Result(COULD_NOT_START, "", str(error))
        return Result(done.returncode, done.stdout, done.stderr)

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            return list(pool.map(partial(self.run, timeout_seconds=timeout_seconds), commands))

    def read_text(self, path: str) -> str | None:
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    def which(self, program: str) -> str | None:
        return shutil.which(program)

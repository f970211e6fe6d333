"""argv -> Result, on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from upright.base.bounds.files import file_text
from upright.base.host.contract import COULD_NOT_START, NEUTRAL_FOLDER, TIMED_OUT, Result, with_absolute_program

SIDE_BY_SIDE = 8
GRACE_SECONDS = 1


class LocalHost:
    """This machine. Commands have the environment that is named here; without one, Upright's own."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment

    @property
    def name(self) -> str:
        return os.uname().nodename

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        try:
            process = subprocess.Popen(
                with_absolute_program(argv),
                cwd=NEUTRAL_FOLDER,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            return Result(COULD_NOT_START, "", str(error))
        with process:
            try:
                out, err = process.communicate(timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                _abandon(process)
                return Result(TIMED_OUT, "", f"{argv[0]} took longer than {timeout_seconds:g} s")
        return Result(process.returncode, out, err)

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            return list(pool.map(partial(self.run, timeout_seconds=timeout_seconds), commands))

    def read_text(self, path: str) -> str | None:
        try:
            return file_text(Path(path), errors="replace")
        except OSError:
            return None

    def which(self, program: str) -> str | None:
        return shutil.which(program)


def _abandon(process: subprocess.Popen[str]) -> None:
    """Kills the command and its children. One that waits on a dead disk cannot be killed; it is left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.returncode = -signal.SIGKILL if process.returncode is None else process.returncode

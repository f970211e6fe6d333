"""Exit code + log -> why an engine ended, in words."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from upright.facts.records.recipe import Recipe
from upright.serving.diagnose import cause_in

_TAIL_BYTES = 16_384
_RUNTIME_FAILED = (125, 126, 127)
_RUNTIME_SAYS = re.compile(r"^(?:Error: |docker: |Error response from daemon: )(.+)$", re.MULTILINE)


def why_ended(recipe: Recipe, code: int | None, log: Path, *, said: str | None = None) -> str:
    """What is known already, and the cause that the log names. A container's client adds 128 to a signal's number."""
    contained = recipe.runtime != "process"
    if contained and code is not None and code > 128:
        code = 128 - code
    if contained and code in _RUNTIME_FAILED and (complaints := _RUNTIME_SAYS.findall(_tail(log))):
        return f"{recipe.runtime} could not run it: {complaints[-1].strip()}"
    summary = said or f"{recipe.engine} {_ended(code)}"
    cause = cause_in(log, recipe.engine) if code != -signal.SIGKILL and log.exists() else None
    return f"{summary}: {cause}" if cause else summary


def last_words(log: Path, code: int | None) -> str:
    """The last line that a command wrote; how it ended if it wrote none."""
    lines = [line.strip() for line in _tail(log).splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else _ended(code)


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace")


def _ended(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

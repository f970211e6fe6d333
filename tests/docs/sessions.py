"""```console blocks of a page -> commands that are really run, and their output held against what the page shows.

`$ ` starts a command; what follows is its output, stdout and stderr as a terminal mixes them. `…` inside a line stands
for any text, a line of `…` alone for any lines, and a last line `[exit N]` for an exit code other than 0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.command import program
from tests.ports import alone_on

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"\[exit (\d+)\]")
_PORT = re.compile(r"(?:--port |127\.0\.0\.1:)(\d+)")
_SO_FAR = re.compile(r"  [\d.]+ \w+(?: [\d.]+ \w+)? so far(?:: |$)")


@dataclass(frozen=True)
class Step:
    """One command of a page and what the page says it prints."""

    command: str
    shown: tuple[str, ...]
    exit_code: int


def steps(page: Path) -> list[Step]:
    found = []
    for block in BLOCK.findall(page.read_text()):
        command, shown = None, []
        for line in [*block.splitlines(), "$ "]:
            if not line.startswith("$ "):
                shown.append(line)
                continue
            if command is not None:
                code = EXIT.fullmatch(shown[-1]) if shown else None
                found.append(Step(command, tuple(shown[:-1] if code else shown), int(code[1]) if code else 0))
            command, shown = line[2:], []
    return found


def run_page(page: Path, folder: Path, environment: dict[str, str], programs: Path | None = None) -> list[str]:
    """Run every command of the page in order, in one folder; returns what does not agree. `upright` is the one in
    `programs`, or the one that all tests have."""
    with alone_on(int(port) for port in _PORT.findall(page.read_text())):
        return [each for step in steps(page) if (each := _complaint(step, folder, environment, programs)) is not None]


def _complaint(step: Step, folder: Path, environment: dict[str, str], programs: Path | None) -> str | None:
    code, output = run_step(step.command, folder, environment, programs)
    if code != step.exit_code:
        return f"$ {step.command}\nexit code {code}, page says {step.exit_code}\n{output}"
    if agrees(step.shown, output.rstrip("\n").splitlines()):
        return None
    shown = "\n".join(step.shown)
    return f"$ {step.command}\n--- the page shows\n{shown}\n--- it printed\n{output}"


def run_step(command: str, folder: Path, environment: dict[str, str], programs: Path | None = None) -> tuple[int, str]:
    """A command's exit code, and what it printed."""
    path = f"{environment.get('PATH', os.environ['PATH'])}:{Path(sys.executable).parent}"
    variables = {**environment, "PATH": f"{programs or program().parent}:{path}", "NO_COLOR": "1", "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def agrees(shown: tuple[str, ...], printed: list[str]) -> bool:
    """What is told in between where a step takes long is this machine's, and on no page."""
    printed = [line for line in printed if not _SO_FAR.match(line)]
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None

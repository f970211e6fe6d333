"""tests/golden/frozen -> the `upright` package with those rows instead of its own, for another process.

A small catalogue that no new row reaches: what is made of it changes with the code alone. The package is links to ours,
but for the rows; whoever has its folder first on PYTHONPATH has it, and so have the processes that it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/upright"
FROZEN = Path(__file__).with_name("frozen")
"""As the package, with rows and recordings only."""
REPLACED = (PACKAGE / "facts/catalog", PACKAGE / "engines")
"""Folders of which only the code is ours."""


def frozen_package(folder: Path) -> Path:
    """The folder, as PYTHONPATH needs it."""
    _link(PACKAGE, folder / "upright")
    return folder


def printed_on_frozen_rows(module: str, folder: Path) -> str:
    """What `python -m MODULE` prints there."""
    path = os.pathsep.join(map(str, (frozen_package(folder), ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "UPRIGHT_HOME": str(folder / "home"), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def _link(ours: Path, place: Path) -> None:
    """As one link where nothing below is replaced."""
    within = any(ours.is_relative_to(folder) for folder in REPLACED)
    if ours.is_file() or not (within or any(folder.is_relative_to(ours) for folder in REPLACED)):
        place.symlink_to(ours)
        return
    place.mkdir(parents=True)
    for path in ours.iterdir():
        if path.name != "__pycache__" and (not within or path.suffix == ".py" or any(path.glob("*.py"))):
            _link(path, place / path.name)
    frozen = FROZEN / ours.relative_to(PACKAGE)
    for path in frozen.iterdir() if within and frozen.is_dir() else ():
        if not (place / path.name).exists():
            (place / path.name).symlink_to(path)

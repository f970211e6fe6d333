"""Upright's home directory and its permissions."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def home() -> Path:
    """UPRIGHT_HOME, or the user's data directory."""
    if (named := os.environ.get("UPRIGHT_HOME")) and not os.path.isabs(named):  # noqa: PTH117  pathlib is slow
        return Path(named).absolute()
    return _home(named, os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@cache
def _home(named: str | None, *_wherefrom: str | None) -> Path:
    """Asked for each row of a plan; what platformdirs goes by is in the arguments."""
    if named:
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("upright")


def make_private(folder: Path) -> None:
    """Makes it, and what is missing above it, for this person alone: whoever writes there could leave a recipe."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def restrict_umask() -> None:
    """From here on this process makes nothing that another user may write, whatever the shell's umask allows."""
    os.umask(os.umask(0o077) | 0o022)

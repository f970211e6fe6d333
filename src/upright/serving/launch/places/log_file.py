"""Opens a log to append to, whatever the disk says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def open_log(path: Path) -> IO[bytes]:
    """Where not even a name can be written any more, what would be logged is lost: a serving engine is worth more."""
    try:
        return path.open("ab")
    except OSError:
        return Path(os.devnull).open("ab")

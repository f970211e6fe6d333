"""The environment -> where the user's own files are."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """UPRIGHT_HOME, or the user's data directory."""
    if named := os.environ.get("UPRIGHT_HOME"):
        return Path(named).absolute()
    from platformdirs import user_data_path

    return user_data_path("upright")

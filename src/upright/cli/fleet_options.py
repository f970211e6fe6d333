"""Options that the commands of `upright fleet` share, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def fleet_argument(function: F) -> F:
    return click.argument(
        "file", type=click.Path(path_type=Path, dir_okay=False), default="fleet.yaml", required=False
    )(function)

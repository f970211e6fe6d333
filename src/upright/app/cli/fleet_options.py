"""What the commands of `upright fleet` share: the file, or the fleet that was started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def fleet_argument(function: F) -> F:
    """What is to be."""
    return click.argument(
        "file", type=click.Path(path_type=Path, dir_okay=False), default="fleet.yaml", required=False
    )(function)


def started_argument(function: F) -> F:
    """What is there already."""
    return click.argument("fleet", metavar="[FLEET|FILE]", required=False)(function)

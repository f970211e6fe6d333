"""What the commands of `upright fleet` share: the file, and the fleet that was started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from upright.records.fleet import Fleet

F = TypeVar("F", bound=Callable[..., Any])


def fleet_argument(function: F) -> F:
    """What is to be."""
    return click.argument(
        "file", type=click.Path(path_type=Path, dir_okay=False), default="fleet.yaml", required=False
    )(function)


def started_argument(function: F) -> F:
    """What is there already."""
    return click.argument("fleet", metavar="[FLEET|FILE]", required=False)(function)


def started(name: str | None) -> Fleet:
    """The fleet of that name or file, as it was started; without one fleet.yaml here, or the only one there is."""
    from upright.errors import UsageError
    from upright.fleet import read_fleet
    from upright.fleet.directory import FleetDir, known_fleets

    known = {known_fleet.name: known_fleet for known_fleet in known_fleets()}
    if name is None and Path("fleet.yaml").exists():
        name = "fleet.yaml"
    if name is None:
        if len(known) != 1:
            raise UsageError(
                f"which fleet? {', '.join(known)}" if known else "there is no fleet yet", hint="upright fleet up FILE"
            )
        name = next(iter(known))
    if name not in known and not Path(name).exists() and Path(name).suffix not in (".yaml", ".yml"):
        raise UsageError(
            f"no fleet named {name}", hint=f"known: {', '.join(known)}" if known else "upright fleet up FILE"
        )
    called = name if name in known else read_fleet(Path(name)).name
    if called not in known:
        raise UsageError(f"{called} was never started", hint=f"upright fleet up {name}")
    return FleetDir(called).fleet()


def file_of(fleet: Fleet) -> list[str]:
    """The file it came from, as it is typed from here; nothing if that is not known."""
    from upright.fleet.directory import FleetDir

    file = FleetDir(fleet.name).file
    if file is None:
        return []
    return [str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)]

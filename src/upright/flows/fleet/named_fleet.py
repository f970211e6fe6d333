"""Finds a started fleet by its name or file."""

from __future__ import annotations

from pathlib import Path

from upright.base.errors import UsageError
from upright.facts.records.fleet import Fleet
from upright.flows.fleet.directory import FleetDir, known_fleets
from upright.flows.fleet.fleet_file import read_fleet


def started_fleet(name: str | None) -> Fleet:
    """The fleet of that name or file, as it was started; without one fleet.yaml here, or the only one there is."""
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


def deployment_behind(name: str | None) -> str | None:
    """The router's deployment, where a fleet has that name; else the name as it is."""
    directory = FleetDir(name) if name is not None and name in {fleet.name for fleet in known_fleets()} else None
    return (directory.state().router if directory is not None else None) or name


def file_of(fleet: Fleet) -> list[str]:
    """The file it came from, as it is typed from here; nothing if that is not known."""
    file = FleetDir(fleet.name).file
    if file is None:
        return []
    return [str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)]

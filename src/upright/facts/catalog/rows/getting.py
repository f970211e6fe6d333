"""How an engine is got: the commands, and what of them was tried where."""

from typing import Annotated, Literal

from pydantic import Field

from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.catalog.rows.engine import Engine


class GettingRow(Row):
    """One way to get one engine."""

    engine: Engine
    """Which engine."""
    by: Literal["environment", "image", "package", "release", "build"]
    """environment: Python; image: a container; package: the system's or brew's; release: its makers' archive; build."""
    about: NonEmptyText
    """What one has then."""
    needs_gpu: bool | None = None
    """True for GPUs only, False for machines without one, None for both."""
    compute_capability: VersionRange = "*"
    """Whose GPUs: `>=5.0` NVIDIA's, `==gfx*` AMD's, `==apple*`."""
    commands: Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
    """To be typed one after the other; `{version}` is the newest version whose flags are recorded."""
    manager: Literal["apt", "brew", "conda", "dnf", "nix", "yay"] | None = None
    """Whose package it is: which machines can have it by these commands."""
    package: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")] | None = None
    """Its name there, where the manager must be asked whether this release of the system has it."""
    glibc: VersionRange | None = None
    """The C library that a build of the makers needs."""
    tried: str | None = None
    """Where these commands were run, and what came of it; None if they were not."""

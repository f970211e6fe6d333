"""Runtime: the command that runs a recipe, what must be there before, and what must be gone afterwards.

Every runtime is a command in the foreground: its output is the engine's log, a signal to it reaches the engine, its end
is the engine's end. Where it runs, a runtime does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from upright.base.host.environment import Recipient
from upright.facts.records.recipe import Recipe


@dataclass(frozen=True)
class DeploymentPaths:
    """Where a deployment's files are on the machine that runs it, and whose they are."""

    key_file: str
    key_config: str
    """A YAML file `api-key: KEY`, written where the recipe asks for it."""
    home: str
    user: str
    """UID:GID"""


@dataclass(frozen=True)
class Command:
    """What is run. The key is in none of it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    key_variable: str | None = None
    """The variable in which the engine wants the key."""
    folders: tuple[str, ...] = ()
    """Made before it starts."""
    to: Recipient = "engine"
    """Whom it is given to, which decides what of the machine's own environment is handed on."""
    passed: tuple[str, ...] = ()
    """Variables of that environment that the person asked for besides."""


class Runtime(Protocol):
    """process, podman or docker."""

    @property
    def name(self) -> str: ...
    @property
    def program(self) -> str | None:
        """What must be installed besides the engine."""
        ...

    def command(self, recipe: Recipe, site: DeploymentPaths, *, container: str, label: str) -> Command: ...
    def present(self, recipe: Recipe) -> Sequence[str] | None:
        """Exits 0 if nothing has to be pulled; None if nothing ever has."""
        ...

    def pull(self, recipe: Recipe) -> Command: ...
    def remove(self, container: str) -> Sequence[str] | None:
        """Removes what a killed client left; harmless when there is nothing."""
        ...

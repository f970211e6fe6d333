"""The contract that every engine fulfils: Plan -> flags, and where to knock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from upright.records.box import Box
from upright.records.model import Model
from upright.records.plan import Plan
from upright.records.recipe import Setting


@dataclass(frozen=True)
class Serving:
    """What the person decides about a deployment, beyond the plan."""

    model_path: str
    served_name: str
    host: str
    port: int


class Engine(Protocol):
    """One inference engine."""

    @property
    def name(self) -> str: ...
    @property
    def health_path(self) -> str: ...
    @property
    def metrics_path(self) -> str | None: ...
    @property
    def where_from(self) -> str:
        """What to tell a person who does not have it."""
        ...

    def arguments(self, plan: Plan, model: Model, box: Box, serving: Serving) -> tuple[Setting, ...]:
        """The flags in order, each with its reason."""
        ...

    def environment(self, plan: Plan, model: Model, box: Box) -> tuple[Setting, ...]: ...

    def failure(self, log_tail: str) -> str | None:
        """The line of the log that says why the engine ended, or None."""
        ...

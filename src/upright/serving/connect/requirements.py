"""What each client that `connect` knows requires of an endpoint, and whether one endpoint meets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part
from upright.facts.records.evidence import Evidence
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir

Outcome = Literal["works", "works with settings", "does not"]


class ClientRequirements(Part):
    """One client."""

    client: str
    """As `connect --client` takes it."""
    about: str
    """What it is."""
    needs: tuple[str, ...]
    """Checks without which it does not work."""
    settles: dict[str, str]
    """Checks that it can do without, and what to use or to set then."""
    forgives: tuple[str, ...] = ()
    """Checks that it does not notice."""


@dataclass(frozen=True)
class ClientVerdict:
    """How a client gets on with one endpoint."""

    client: str
    outcome: Outcome
    words: tuple[str, ...] = ()
    """What to set; or what it misses."""


@cache
def all_requirements() -> tuple[ClientRequirements, ...]:
    rows = from_yaml(files("upright.serving.connect").joinpath("needs.yaml").read_text(encoding="utf-8"))
    return tuple(ClientRequirements.model_validate(row) for row in rows)


def requirements_of(client: str) -> ClientRequirements:
    return next(row for row in all_requirements() if row.client == client)


def proved_checks(directory: DeploymentDir) -> dict[str, str]:
    """The verdicts of the rung `clients` in the last climb, if it was of the recipe that runs."""
    if not directory.has(Evidence):
        return {}
    running, seen = directory.read(Recipe).reference, directory.read(Evidence).of("clients")
    return {observation.check: observation.verdict for observation in seen if observation.subject == running}


@cache
def needed_checks() -> frozenset[str]:
    """Checks that some client cannot do without."""
    return frozenset(check for row in all_requirements() for check in row.needs)


def client_verdict(row: ClientRequirements, verdicts: Mapping[str, str]) -> ClientVerdict:
    """By the verdict of each check; one that was not made, or could not be, speaks neither for nor against."""
    missed = tuple(check for check in row.needs if verdicts.get(check) in ("failed", "unsupported"))
    if missed:
        return ClientVerdict(row.client, "does not", missed)
    settings = [setting for check, setting in row.settles.items() if verdicts.get(check) in ("failed", "unsupported")]
    if settings:
        return ClientVerdict(row.client, "works with settings", tuple(dict.fromkeys(settings)))
    return ClientVerdict(row.client, "works")

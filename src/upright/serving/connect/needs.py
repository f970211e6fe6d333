"""What each client that `connect` knows needs of an endpoint: rows, and how one of them fares with what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part

Outcome = Literal["works", "works with settings", "does not"]


class Needs(Part):
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
class Fares:
    """How a client gets on with one endpoint."""

    client: str
    outcome: Outcome
    words: tuple[str, ...] = ()
    """What to set; or what it misses."""


@cache
def all_needs() -> tuple[Needs, ...]:
    rows = from_yaml(files("upright.serving.connect").joinpath("needs.yaml").read_text())
    return tuple(Needs.model_validate(row) for row in rows)


@cache
def needed_checks() -> frozenset[str]:
    """Checks that some client cannot do without."""
    return frozenset(check for row in all_needs() for check in row.needs)


def fares(row: Needs, verdicts: Mapping[str, str]) -> Fares:
    """By the verdict of each check; one that was not made, or could not be, speaks neither for nor against."""
    missed = tuple(check for check in row.needs if verdicts.get(check) in ("failed", "unsupported"))
    if missed:
        return Fares(row.client, "does not", missed)
    settings = [setting for check, setting in row.settles.items() if verdicts.get(check) in ("failed", "unsupported")]
    if settings:
        return Fares(row.client, "works with settings", tuple(dict.fromkeys(settings)))
    return Fares(row.client, "works")

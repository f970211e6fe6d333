"""What a rung is: a name, and questions whose answers it judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from upright.endpoint.client import Endpoint
from upright.proving.prompts import PromptSet
from upright.records.evidence import Observation


@dataclass(frozen=True)
class Rung:
    """One step of the ladder."""

    name: str
    climb: Callable[[Endpoint, PromptSet], Iterator[Observation]]

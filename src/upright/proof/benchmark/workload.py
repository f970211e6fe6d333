"""Workloads by name: the shapes to measure, as data."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal

from upright.base.errors import UsageError
from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part
from upright.facts.records.benchmark import Shape

RAMP_STREAMS_PER_SECOND = 1000
"""Above this many streams the first ones are spread: a server that reads requests one by one would be measured else."""


class Workload(Part):
    """A load by name."""

    name: str
    """What people type."""
    about: str
    """What it is, in words."""
    source: str
    """Who measures so."""
    prompt_tokens: int = 0
    """Tokens of a prompt; 0 if `contexts` lists several."""
    contexts: tuple[int, ...] = ()
    """Several lengths of prompt, for a matrix."""
    output_tokens: int
    """Tokens of an answer."""
    concurrency: tuple[int, ...]
    """Requests at once, each a cell."""
    requests_each: int = 2
    """Requests, or conversations, for each that is in flight."""
    turns: int = 1
    """Requests of a conversation."""
    turn_tokens: int = 0
    """Tokens that a turn adds."""
    shared_tokens: int = 0
    """Tokens that all prompts share."""
    trace: bool = False
    """A trace of coding agents is replayed: generated from published statistics, unless one is given."""
    planned: bool = False
    """Cells are chosen by the plan of the deployment and the time there is; the row's own stand for none."""
    search: Literal["knee", "goodput"] | None = None
    """How the next cell follows from the last; None: all are measured."""

    def shapes(self) -> list[Shape]:
        """In the order they are measured: short before long, few before many."""
        return [
            Shape(
                prompt_tokens=prompt,
                output_tokens=self.output_tokens,
                concurrency=streams,
                requests=streams * self.requests_each,
                ramp_seconds=streams / RAMP_STREAMS_PER_SECOND if streams >= RAMP_STREAMS_PER_SECOND / 4 else 0.0,
                turns=self.turns,
                turn_tokens=self.turn_tokens,
                shared_tokens=self.shared_tokens,
            )
            for prompt in (self.contexts or (self.prompt_tokens,))
            for streams in self.concurrency
        ]


@cache
def workloads() -> dict[str, Workload]:
    rows = from_yaml(files("upright.proof.benchmark").joinpath("workloads.yaml").read_text(encoding="utf-8"))
    return {row["name"]: Workload.model_validate(row) for row in rows}


def workload(name: str) -> Workload:
    known = workloads()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"workloads: {', '.join(known)}"
        raise UsageError(f"no workload named {name}", hint=hint)
    return known[name]


def shape_tokens(shape: Shape) -> int:
    """Tokens of cache that one user of this shape needs at the end of the last turn."""
    later = (shape.turns - 1) * (shape.turn_tokens + shape.output_tokens)
    return shape.prompt_tokens + shape.output_tokens + later

"""What a person learns about a name."""

from __future__ import annotations

from upright.facts.records.base import Part


class Explanation(Part):
    """One meaning of a name."""

    kind: str
    """What sort of thing it is, in words: failure, flag of vllm, field of a record."""
    name: str
    """The name, spelled as it is known."""
    title: str | None = None
    """A line for people, where the name alone says little."""
    what: str
    """What it is."""
    matters: str | None = None
    """Why one should care."""
    do: tuple[str, ...] = ()
    """What to do, the likeliest first."""
    facts: tuple[tuple[str, str], ...] = ()
    """Label and value, in the order that people ask."""
    parts: tuple[tuple[str, str], ...] = ()
    """What it consists of: name and meaning."""
    see: tuple[str, ...] = ()
    """Other names that can be explained."""
    grade: str | None = None
    """How well it is known; None for our own words."""
    sources: tuple[str, ...] = ()
    """Where it was learned."""
    owner: str = "upright"
    """upright, or user for a row of the user's own."""

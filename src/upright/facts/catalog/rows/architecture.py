"""Architectures: how a configuration of that family is read, layer by layer."""

from __future__ import annotations

from pydantic import Field

from upright.facts.catalog.rows.base import Row, Words


class ArchitectureRow(Row):
    """A family of configurations. Functions are named, not written: the room `deriving` has them."""

    about: Words
    """What it is, in a sentence."""
    model_types: tuple[Words, ...]
    """`model_type` of the part that describes the text model."""
    architectures: tuple[Words, ...] = ()
    """Classes that engines build from it."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Classes of copies that somebody else wrote of its configuration, and what the maker's own says there."""
    pattern: Words
    """Which rule gives each layer its kind."""
    kinds: dict[str, str] = Field(default_factory=dict)
    """What a layer of a kind keeps of the past; `*` for every kind."""
    feedforward: Words
    """Which layers have a mixture of experts."""
    settings: dict[str, int | str | bool] = Field(default_factory=dict)
    """Numbers and words that these rules take."""
    names: dict[str, str] = Field(default_factory=dict)
    """Other spellings of keys."""
    inert: tuple[str, ...] = ()
    """Keys of this family that do not decide memory."""
    weights: dict[str, int | str | bool] = Field(default_factory=dict)
    """What its tensors have beyond the plain projections: norms, biases, gates."""

"""Architectures: how a configuration of that family is read, layer by layer."""

from pydantic import Field

from upright.facts.catalog.rows.base import NonEmptyText, Row


class ArchitectureRow(Row):
    """A family of configurations. Functions are named, not written: the room `deriving` has them."""

    about: NonEmptyText
    """What it is, in a sentence."""
    model_types: tuple[NonEmptyText, ...]
    """`model_type` of the part that describes the text model."""
    architectures: tuple[NonEmptyText, ...] = ()
    """Classes that engines build from it."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Classes of copies that somebody else wrote of its configuration, and what the maker's own says there."""
    pattern: NonEmptyText
    """Which rule gives each layer its kind."""
    kinds: dict[str, str] = Field(default_factory=dict)
    """What a layer of a kind keeps of the past; `*` for every kind."""
    feedforward: NonEmptyText
    """Which layers have a mixture of experts."""
    settings: dict[str, int | str | bool] = Field(default_factory=dict)
    """Numbers and words that these rules take."""
    names: dict[str, str] = Field(default_factory=dict)
    """Other spellings of keys."""
    inert: tuple[str, ...] = ()
    """Keys of this family that do not decide memory."""
    weights: dict[str, int | str | bool] = Field(default_factory=dict)
    """What its tensors have beyond the plain projections: norms, biases, gates."""

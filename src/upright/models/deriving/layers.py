"""A parsed configuration: its layers, one by one and counted, and its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from upright.facts.records.model import Architecture, Attention, LibraryDefault
from upright.models.deriving.feedforward import FeedForward
from upright.models.deriving.keys import ConfigKeys
from upright.models.deriving.tensor_builder import DerivedTensor

if TYPE_CHECKING:
    from upright.facts.catalog.rows.architecture import ArchitectureRow


class Layer(NamedTuple):
    """One layer of the stack."""

    kind: str
    attention: tuple[Attention, ...]
    feedforward: FeedForward


class ParsedConfiguration(NamedTuple):
    """What a configuration says."""

    architecture: Architecture
    not_understood: tuple[str, ...]
    why: Mapping[str, str]
    """For some of them, what was wrong."""
    assumed: tuple[LibraryDefault, ...]
    layers: tuple[Layer, ...]
    row: ArchitectureRow | None
    keys: ConfigKeys
    """Of the text part, for what is still to be asked: weights."""
    tied: bool | None = None
    """Whether the output shares the embedding, where the outer part of the file says so."""
    tensors: tuple[DerivedTensor, ...] = ()
    """Every tensor of the text model, by shape."""


def count_alike(stack: tuple[Layer, ...]) -> tuple[Attention, ...]:
    """Layers that are alike, counted: recurrent ones, then those that see everything, then windows."""
    counts = Counter(kind for layer in stack for kind in layer.attention)
    kinds = sorted(counts, key=lambda kind: (kind.kind == "shared", kind.kind != "linear", _bounded(kind)))
    return tuple(kind.model_copy(update={"layers": counts[kind]}) for kind in kinds)


def _bounded(kind: Attention) -> int:
    if kind.kind == "compressed":
        return kind.ratio
    return 0 if kind.kind in ("linear", "shared") else getattr(kind, "window_tokens", None) or 0

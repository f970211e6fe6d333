"""Builds the tensors of a layer: group, name and shape."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from upright.facts.records.model import Group
from upright.models.deriving.keys import ConfigKeys

Traits = Mapping[str, int | str | bool]
_FORMS = frozenset({"independent"})


class DerivedTensor(NamedTuple):
    """One tensor, or `copies` alike."""

    group: Group
    layer: int | None
    name: str
    shape: tuple[int, ...]
    copies: int = 1

    @property
    def parameters(self) -> int:
        return prod(self.shape) * self.copies

    @property
    def linear(self) -> bool:
        """A matrix that is multiplied with, which quantisation may store in fewer bits."""
        if len(self.shape) != 2 or self.group in ("embedding", "norm", "tables"):
            return False
        return not any(
            part in self.name for part in ("conv", "embed_tokens", "shared_head", "hc.", "_norm", "layernorm")
        )


class Sizes(NamedTuple):
    """What every tensor's shape is made of."""

    keys: ConfigKeys
    traits: Traits
    hidden: int
    tied: bool = False

    def trait(self, name: str) -> bool:
        """True, False, or as a key of the configuration says."""
        answer = self.traits.get(name, False)
        return self.keys.flag(answer) if isinstance(answer, str) and answer not in _FORMS else bool(answer)


class TensorBuilder:
    """Makes the tensors of one layer."""

    def __init__(self, layer: int | None) -> None:
        self.layer = layer
        self.tensors: list[DerivedTensor] = []

    def add(self, group: Group, name: str, *shape: int, count: int = 1) -> None:
        if all(shape) and count:
            self.tensors.append(DerivedTensor(group, self.layer, name, shape, count))

    def linear(self, group: Group, name: str, rows: int, columns: int, *, bias: bool = False, count: int = 1) -> None:
        self.add(group, f"{name}.weight", rows, columns, count=count)
        if bias:
            self.add(group, f"{name}.bias", rows, count=count)

"""Tensors of all files counted by kind.

Experts of a layer are alike: 200,000 tensors are a few thousand kinds, and everything after this step works on kinds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import prod
from threading import Lock
from typing import NamedTuple

from upright.base.errors import ReadError
from upright.models.reading.tensors import Header

_BATCH = 20_000
_KIND_LIMIT = 100_000
"""Names that differ in more than the number of an expert; the models in the field have fewer than ten thousand."""
_EXPERT = re.compile(r"\.experts\.[0-9]+\.")


class TensorKind(NamedTuple):
    """Tensors that differ at most in the number of their expert."""

    name: str
    """The name, with `*` for the number of the expert."""
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)


class TensorTally:
    """How many tensors are of a kind, and their bytes."""

    __slots__ = ("bytes", "tensors")

    def __init__(self) -> None:
        self.tensors = 0
        self.bytes = 0


class TensorInventory:
    """What all files hold together. Files may come from several threads."""

    def __init__(self) -> None:
        self.kinds: dict[TensorKind, TensorTally] = {}
        self._names: set[str] = set()
        self._lock = Lock()

    def add(self, header: Header) -> None:
        """Adds one file; a tensor that is in two files is an error."""
        counts: Counter[tuple[str, int]] = Counter()
        for at in range(0, len(header.names), _BATCH):
            names, layout = header.names[at : at + _BATCH], header.layout[at : at + _BATCH]
            counts.update(zip(_alike(names), layout, strict=True))
            if len(counts) > _KIND_LIMIT:
                raise ReadError(f"a file's tensors are of more than {_KIND_LIMIT:,} kinds; refused")
        with self._lock:
            before = len(self._names)
            self._names.update(header.names)
            if len(self._names) != before + len(header.names):
                raise ReadError("the artifact is broken: a tensor is in two of its files")
            if len(self.kinds) + len(counts) > 2 * _KIND_LIMIT:
                raise ReadError(f"the tensors are of more than {2 * _KIND_LIMIT:,} kinds; refused")
            for (name, number), count in counts.items():
                dtype, shape, size_bytes = header.layouts[number]
                tally = self.kinds.setdefault(TensorKind(name, dtype, shape), TensorTally())
                tally.tensors += count
                tally.bytes += count * size_bytes


def _alike(names: Sequence[str]) -> list[str]:
    """The names with `*` for the number of an expert."""
    alike = _EXPERT.sub(".experts.*.", "\n".join(names)).split("\n") if names else []
    if len(alike) != len(names):
        return [_EXPERT.sub(".experts.*.", name) for name in names]  # a name with a line break in it
    return alike

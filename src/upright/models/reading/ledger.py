"""Tensors of all files -> weight lines: bytes and parameters by group, layer and stored type."""

from __future__ import annotations

import re

from upright.facts.records.model import Group, UnknownName, WeightLine

_NUMBERS = re.compile(r"\d+")
_UNKNOWN_LIMIT = 100
_LONGEST_PATTERN = 200
_ORDER: tuple[Group, ...] = (
    "embedding", "attention", "indexer", "dense_ffn", "router", "routed_experts", "shared_experts", "norm", "output",
    "tables", "vision", "draft", "other",
)  # fmt: skip

Key = tuple[Group, int | None, str]


class Ledger:
    """Adds up as tensors come; one writer."""

    def __init__(self) -> None:
        self._sums: dict[Key, list[int]] = {}
        self._unknown: dict[str, list[int]] = {}

    def add(self, key: Key, *, tensors: int, parameters: int, bytes: int) -> None:
        sums = self._sums.get(key)
        if sums is None:
            self._sums[key] = [tensors, parameters, bytes]
        else:
            sums[0] += tensors
            sums[1] += parameters
            sums[2] += bytes

    def note_unknown(self, name: str, *, tensors: int, bytes: int) -> None:
        pattern = _NUMBERS.sub("*", name)[:_LONGEST_PATTERN]
        if pattern not in self._unknown and len(self._unknown) >= _UNKNOWN_LIMIT:
            pattern = "(more names)"
        sums = self._unknown.setdefault(pattern, [0, 0])
        sums[0] += tensors
        sums[1] += bytes

    def lines(self) -> tuple[WeightLine, ...]:
        def order(key: Key) -> tuple[int, int, str]:
            group, layer, dtype = key
            return _ORDER.index(group), -1 if layer is None else layer, dtype

        return tuple(
            WeightLine(group=key[0], layer=key[1], dtype=key[2], tensors=sums[0], parameters=sums[1], bytes=sums[2])
            for key, sums in sorted(self._sums.items(), key=lambda entry: order(entry[0]))
        )

    def unknown(self) -> tuple[UnknownName, ...]:
        largest_first = sorted(self._unknown.items(), key=lambda entry: (-entry[1][1], entry[0]))
        return tuple(UnknownName(pattern=name, tensors=sums[0], bytes=sums[1]) for name, sums in largest_first)

"""The tensors of a file's header, checked: every byte is header, tensor or padding.

Every byte of a file is header, tensor or padding; a header that claims otherwise is refused here. Tensors are kept as
columns: a repository may have 200,000 of them, of a few dozen layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import le
from typing import Any, NamedTuple

from upright.base.errors import ReadError
from upright.facts.records.model import ModelFile

TENSOR_LIMIT = 400_000
"""Tensors of one file; the largest published repositories have about 500,000 over all their files."""


class TensorLayout(NamedTuple):
    """What tensors of the same type and shape have in common."""

    dtype: str
    """Stored type, as the format names it."""
    shape: tuple[int, ...]
    """As the format writes it: outermost first in safetensors, innermost first in GGUF."""
    bytes: int
    """What one such tensor takes."""


class Tensor(NamedTuple):
    """One entry of a header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    """First byte, counted from the start of the file."""
    end: int
    """One past the last byte."""


@dataclass(frozen=True)
class Header:
    """What a file says about itself. Tensor `i` is `names[i]`, `layouts[layout[i]]`, at `offsets[i]`."""

    header_bytes: int
    """Bytes before the data section, its alignment included; offsets count from there."""
    metadata: Mapping[str, Any]
    """Keys and values; long arrays are only counted."""
    layouts: Sequence[TensorLayout]
    """Each type and shape once."""
    names: Sequence[str]
    """In the order of the header."""
    layout: Sequence[int]
    """Index into `layouts`, for each tensor."""
    offsets: Sequence[int]
    """First byte of each tensor in the data section."""

    @property
    def tensors(self) -> list[Tensor]:
        """One by one."""
        rows = zip(self.names, (self.layouts[index] for index in self.layout), self.offsets, strict=True)
        start = self.header_bytes
        return [
            Tensor(name, dtype, shape, start + offset, start + offset + size_bytes)
            for name, (dtype, shape, size_bytes), offset in rows
        ]


def account(name: str, size_bytes: int, header: Header, *, gaps: bool = True) -> ModelFile:
    """Adds up tensors and the gaps between them; overlaps and tensors beyond the end of the file are errors.

    `gaps=False` for a format that allows none.
    """
    widths = [layout.bytes for layout in header.layouts]
    starts, sizes = list(header.offsets), [widths[index] for index in header.layout]
    if starts != sorted(starts):
        in_order = sorted(zip(starts, sizes, strict=True))
        starts, sizes = [start for start, _ in in_order], [size for _, size in in_order]
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    if not all(map(le, ends[:-1], starts[1:])):
        wrong = next(index for index, start in enumerate(starts[1:]) if start < ends[index])
        raise ReadError(f"{name} is broken: {_owner(header, starts[wrong + 1])} overlaps what is before it")
    last, tensor_bytes = header.header_bytes + (ends[-1] if ends else 0), sum(sizes)
    if last > size_bytes:
        raise ReadError(
            f"{name} is truncated: its tensors end at byte {last:,}, the file at {size_bytes:,}",
            hint="download the file again",
        )
    padding_bytes = size_bytes - header.header_bytes - tensor_bytes
    if padding_bytes and not gaps:
        raise ReadError(f"{name} is broken: {padding_bytes:,} of its bytes belong to no tensor")
    return ModelFile(
        name=name,
        size_bytes=size_bytes,
        header_bytes=header.header_bytes,
        tensor_bytes=tensor_bytes,
        padding_bytes=padding_bytes,
        tensors=len(header.names),
    )


def _owner(header: Header, offset: int) -> str:
    owners = [name for name, start in zip(header.names, header.offsets, strict=True) if start == offset]
    return f"tensor {owners[-1]}"

"""Tensors as a header lists them -> the exact account of their file.

Every byte of a file is header, tensor or padding; a header that claims otherwise is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from upright.errors import ReadError
from upright.records.model import ModelFile

TENSOR_LIMIT = 400_000
"""Tensors of one file; the largest published repositories have about 210,000 over all their files."""


class Tensor(NamedTuple):
    """One entry of a header."""

    name: str
    dtype: str
    """Stored type, as the format names it."""
    shape: tuple[int, ...]
    """As the format writes it: outermost first in safetensors, innermost first in GGUF."""
    start: int
    """First byte, counted from the start of the file."""
    end: int
    """One past the last byte."""


@dataclass(frozen=True)
class Header:
    """What a file says about itself."""

    header_bytes: int
    """Bytes before the data section, its alignment included."""
    metadata: Mapping[str, Any]
    """Keys and values; long arrays are only counted."""
    tensors: Sequence[Tensor]
    """In the order of the file's header."""


def account(name: str, size_bytes: int, header: Header) -> ModelFile:
    """Adds up tensors and the gaps between them; overlaps and tensors beyond the end of the file are errors."""
    spans = [(tensor.start, tensor.end) for tensor in header.tensors]
    if any(left[0] > right[0] for left, right in pairwise(spans)):
        spans.sort(key=itemgetter(0, 1))
    position, tensor_bytes, padding_bytes = header.header_bytes, 0, 0
    for start, end in spans:
        if start < position:
            raise ReadError(f"{name} is broken: {_owner(header, start, end)} overlaps what comes before it")
        padding_bytes += start - position
        tensor_bytes += end - start
        position = end
    if position > size_bytes:
        raise ReadError(
            f"{name} is truncated: its tensors end at byte {position:,}, the file at {size_bytes:,}",
            hint="download the file again",
        )
    return ModelFile(
        name=name,
        size_bytes=size_bytes,
        header_bytes=header.header_bytes,
        tensor_bytes=tensor_bytes,
        padding_bytes=padding_bytes + size_bytes - position,
        tensors=len(header.tensors),
    )


def _owner(header: Header, start: int, end: int) -> str:
    names = [tensor.name for tensor in header.tensors if (tensor.start, tensor.end) == (start, end)]
    return f"tensor {names[0]}"

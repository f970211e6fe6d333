"""The beginning of a GGUF file -> Header.

Versions 2 and 3, little-endian. Vocabularies are stepped over, not decoded; types of ik_llama.cpp are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from struct import Struct
from typing import Any

from upright.base.errors import ReadError
from upright.models.reading.blobs import BlobWindow
from upright.models.reading.rows import catalogue_file
from upright.models.reading.tensors import TENSOR_LIMIT, Header, TensorLayout

MAGIC = b"GGUF"
_U32, _U64, _PAIR = Struct("<I"), Struct("<Q"), Struct("<QQ")
_SCALARS = {
    0: Struct("<B"), 1: Struct("<b"), 2: Struct("<H"), 3: Struct("<h"), 4: Struct("<I"), 5: Struct("<i"),
    6: Struct("<f"), 7: Struct("<?"), 10: Struct("<Q"), 11: Struct("<q"), 12: Struct("<d"),
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_KEY_LIMIT = 100_000
_STRING_LIMIT = 4_000_000
"""Strings in all arrays of a file together: fifteen vocabularies of the largest kind."""
_KEPT_ELEMENTS = 4096
"""Arrays up to this long are kept (a value a layer); longer ones are vocabularies."""
_KEPT_BYTES = 1 << 20
"""Texts up to this long are kept; no key that matters here is longer."""
_LONGEST_NAME = 65_535
_DIMENSIONS = 4


@dataclass(frozen=True)
class GgmlType:
    """How a type lays out a row."""

    name: str
    block_elements: int
    block_bytes: int
    row_bytes: int
    """Bytes a row has beside its blocks: many types of ik_llama.cpp keep a scale there."""
    ik_only: bool
    """Mainline llama.cpp refuses the file."""
    gpu_kernels: bool = True
    """A GPU multiplies by it."""
    instead: str | None = None
    """What a quantiser stores where a row is not a whole number of blocks."""

    def size_bytes(self, shape: tuple[int, ...]) -> int | None:
        """Bytes of a tensor, innermost dimension first; None if a row is not a whole number of blocks."""
        blocks, rest = divmod(shape[0], self.block_elements)
        if rest:
            return None
        return prod(shape[1:]) * (blocks * self.block_bytes + self.row_bytes)


@dataclass(frozen=True)
class OmittedArray:
    """Stands for an array or a text too long to keep."""

    count: int


@lru_cache(maxsize=1)
def ggml_types() -> Mapping[int, GgmlType]:
    return {row.pop("id"): GgmlType(**row) for row in (dict(row) for row in catalogue_file("ggml_types.yaml")["types"])}


def parse(window: BlobWindow) -> Header:
    """Reads as much as the header needs; offsets are checked by `tensors.account`."""
    reader = _Reader(window)
    tensor_count, key_count = reader.preamble()
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = reader.text("key")
        if key in metadata:
            raise ReadError(f"{reader.name} is broken: key {key} is there twice")
        metadata[key] = reader.value(reader.u32(), key)
    infos = [reader.tensor_info() for _ in range(tensor_count)]
    data_start = _aligned(reader.offset, reader.alignment(metadata))
    if not infos:
        data_start = min(data_start, window.blob.size_bytes)
    names = [name for name, _, _ in infos]
    if len(set(names)) != len(names):
        raise ReadError(f"{reader.name} is broken: a tensor name is there twice")
    numbers = {layout: number for number, layout in enumerate(dict.fromkeys(layout for _, layout, _ in infos))}
    return Header(
        header_bytes=data_start,
        metadata=metadata,
        layouts=list(numbers),
        names=names,
        layout=[numbers[layout] for _, layout, _ in infos],
        offsets=[offset for _, _, offset in infos],
    )


class _Reader:
    """A position in a window, and how to read what stands there."""

    def __init__(self, window: BlobWindow) -> None:
        self.window = window
        self.name = window.blob.name
        self.offset = 0
        self._strings = 0

    def preamble(self) -> tuple[int, int]:
        self.window.need(24)
        buffer = self.window.data
        if buffer[:4] != MAGIC:
            raise ReadError(f"{self.name} is not a GGUF file: it begins with {bytes(buffer[:4])!r}")
        version = _U32.unpack_from(buffer, 4)[0]
        if version not in (2, 3):
            swapped = int.from_bytes(buffer[4:8], "big") in (2, 3)
            what = "is big-endian" if swapped else f"has GGUF version {version}"
            raise ReadError(f"{self.name} {what}; versions 2 and 3, little-endian, are read")
        tensor_count, key_count = _PAIR.unpack_from(buffer, 8)
        if tensor_count > TENSOR_LIMIT or key_count > _KEY_LIMIT:
            raise ReadError(f"{self.name} claims {tensor_count:,} tensors and {key_count:,} keys; refused")
        self.offset = 24
        return tensor_count, key_count

    def u32(self) -> int:
        self.window.need(self.offset + 4)
        number: int = _U32.unpack_from(self.window.data, self.offset)[0]
        self.offset += 4
        return number

    def u64(self) -> int:
        self.window.need(self.offset + 8)
        number: int = _U64.unpack_from(self.window.data, self.offset)[0]
        self.offset += 8
        return number

    def text(self, what: str) -> str:
        """A key or a tensor's name: short, and UTF-8."""
        length = self.u64()
        if length > _LONGEST_NAME:
            raise ReadError(f"{self.name} is broken: a {what} of {length:,} bytes")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise ReadError(f"{self.name} is broken: a {what} is not UTF-8") from None

    def value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._text_value(self.u64(), key)
        if kind == _ARRAY:
            return self._array(key)
        scalar = _SCALARS.get(kind)
        if scalar is None:
            raise ReadError(f"{self.name} is broken: key {key} has unknown value type {kind}")
        self.window.need(self.offset + scalar.size)
        unpacked = scalar.unpack_from(self.window.data, self.offset)[0]
        self.offset += scalar.size
        return unpacked

    def _text_value(self, length: int, key: str) -> Any:
        if length <= _KEPT_BYTES:
            return self._take(length).decode(errors="replace")
        self.window.need(self.offset + length, f"text {key}")
        self.offset += length
        return OmittedArray(length)

    def tensor_info(self) -> tuple[str, TensorLayout, int]:
        name = self.text("tensor name")
        dimensions = self.u32()
        if not 1 <= dimensions <= _DIMENSIONS:
            raise ReadError(f"{self.name} is broken: tensor {name} has {dimensions} dimensions")
        end = self.offset + 8 * dimensions + 12
        self.window.need(end)
        shape = tuple(_U64.unpack_from(self.window.data, self.offset + 8 * index)[0] for index in range(dimensions))
        kind = _U32.unpack_from(self.window.data, end - 12)[0]
        offset = _U64.unpack_from(self.window.data, end - 8)[0]
        self.offset = end
        ggml = ggml_types().get(kind)
        if ggml is None:
            raise ReadError(
                f"{self.name}: tensor {name} has ggml type {kind}, which this version does not know",
                hint="upgrade upright, or add the type to ggml_types.yaml",
            )
        size_bytes = ggml.size_bytes(shape)
        if size_bytes is None:
            raise ReadError(f"{self.name} is broken: rows of {name} ({shape[0]}) are not whole {ggml.name} blocks")
        return name, TensorLayout(ggml.name, shape, size_bytes), offset

    def alignment(self, metadata: Mapping[str, Any]) -> int:
        align_bytes = metadata.get("general.alignment", 32)
        if not isinstance(align_bytes, int) or not 1 <= align_bytes <= 1 << 20 or align_bytes & (align_bytes - 1):
            raise ReadError(f"{self.name} is broken: general.alignment is {align_bytes!r}, not a power of two")
        return align_bytes

    def _take(self, length: int) -> bytes:
        end = self.offset + length
        self.window.need(end)
        piece = bytes(self.window.data[self.offset : end])
        self.offset = end
        return piece

    def _array(self, key: str) -> Any:
        kind, count = self.u32(), self.u64()
        if kind == _STRING:
            return self._strings_array(count, key)
        scalar = _SCALARS.get(kind)
        if scalar is None:
            what = "an array of arrays" if kind == _ARRAY else f"an array of unknown type {kind}"
            raise ReadError(f"{self.name} is broken: key {key} is {what}")
        end = self.offset + count * scalar.size
        self.window.need(end, f"array {key}")
        start, self.offset = self.offset, end
        if count > _KEPT_ELEMENTS:
            return OmittedArray(count)
        return Struct(f"<{count}{scalar.format[1:]}").unpack_from(self.window.data, start)

    def _strings_array(self, count: int, key: str) -> Any:
        self._strings += count
        if self._strings > _STRING_LIMIT:
            raise ReadError(f"{self.name} claims {self._strings:,} strings in its arrays; refused")
        window, unpack, offset = self.window, _U64.unpack_from, self.offset
        buffer, have = window.data, len(window.data)
        for _ in range(count):
            if offset + 8 > have:
                window.need(offset + 8, f"array {key}")
                have = len(buffer)
            offset += 8 + unpack(buffer, offset)[0]
        window.need(offset, f"array {key}")
        start, self.offset = self.offset, offset
        if count > _KEPT_ELEMENTS or offset - start > _KEPT_BYTES:
            return OmittedArray(count)
        return tuple(self._strings_from(start, count))

    def _strings_from(self, offset: int, count: int) -> Iterator[str]:
        for _ in range(count):
            end = offset + 8 + _U64.unpack_from(self.window.data, offset)[0]
            yield self.window.data[offset + 8 : end].decode(errors="replace")
            offset = end


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment

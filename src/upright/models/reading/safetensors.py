"""The beginning of a safetensors file -> Header.

The header is JSON, but of one shape: it is matched entry by entry, so that 200,000 tensors cost little and a hostile
header cannot make the parser build more than it reads.
"""

from __future__ import annotations

import json
import re
from math import prod
from operator import sub
from typing import Any

from upright.base.errors import ReadError
from upright.models.reading.blobs import HEADER_LIMIT_BYTES, BlobWindow
from upright.models.reading.tensors import TENSOR_LIMIT, Header, TensorLayout

# https://github.com/safetensors/safetensors (safetensors 0.8.0, tensor.rs, enum Dtype)
DTYPE_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

_S = rb"[ \t\r\n]*+"
_STRING = rb'"((?:[^"\\\x00-\x1f]++|\\.)*+)"'
_KEY = re.compile(_S + _STRING + _S + rb":" + _S)
_ENTRY = re.compile(
    _S + rb'"([^"\\\x00-\x1f]*+)"' + _S + rb":" + _S + rb"\{" + _S
    + rb'"dtype"' + _S + rb":" + _S + rb'"(\w{1,16})"' + _S + rb"," + _S
    + rb'"shape"' + _S + rb":" + _S + rb"\[([0-9, \t\r\n]{0,400})\]" + _S + rb"," + _S
    + rb'"data_offsets"' + _S + rb":" + _S + rb"\[" + _S + rb"([0-9]{1,19})" + _S + rb"," + _S
    + rb"([0-9]{1,19})" + _S + rb"\]" + _S + rb"\}" + _S + rb"([,}])"
)  # fmt: skip
# As safetensors itself writes it, without a space: a batch of entries is found at once.
_COMPACT = re.compile(
    rb'("([^"\\\x00-\x1f]*+)":\{"dtype":"(\w{1,16})","shape":\[([0-9,]{0,400})\],'
    rb'"data_offsets":\[([0-9]{1,19}),([0-9]{1,19})\]\},)'
)
_BATCH_BYTES = 1 << 22
_OBJECT = re.compile(rb"\{[^{}]{0,4096}\}" + _S + rb"([,}])")
_PAIR = re.compile(_S + _STRING + _S + rb":" + _S + _STRING + _S + rb"([,}])")
_OPEN = re.compile(_S + rb"\{" + _S)
_END = re.compile(_S)
_KEPT_METADATA_BYTES = 65_536
_METADATA = "__metadata__"
_METADATA_PAIRS = 10_000
_Entry = tuple[bytes, bytes, bytes, bytes, bytes]
"""Name, type, shape, first and last offset, all still text."""


def parse(window: BlobWindow) -> Header:
    """Needs two reads at most: the first bytes, and the rest of the header if it is longer."""
    name = window.blob.name
    window.need(8)
    length = int.from_bytes(window.data[:8], "little")
    if length > HEADER_LIMIT_BYTES - 8:
        raise ReadError(f"{name} is not a safetensors file, or broken: it claims a header of {length:,} bytes")
    window.need_exactly(8 + length)
    return _Parser(name, window.data, 8 + length).header()


class _Parser:
    """Walks over one header."""

    def __init__(self, name: str, data: bytearray, end: int) -> None:
        self.name = name
        self.data = data
        self.end = end
        self.metadata: dict[str, str] | None = None
        self._is_compact = True
        self._kinds: dict[tuple[bytes, bytes], int] = {}
        self._layouts: list[TensorLayout] = []

    def header(self) -> Header:
        opened = _OPEN.match(self.data, 8, self.end)
        if opened is None:
            raise ReadError(f"{self.name} is not a safetensors file: its header is not a JSON object")
        if self.data.count(b'"data_offsets"', 8, self.end) > TENSOR_LIMIT:
            raise ReadError(f"{self.name} lists more than {TENSOR_LIMIT:,} tensors; refused")
        names: list[str] = []
        layout: list[int] = []
        offsets: list[int] = []
        position, more = opened.end(), b","
        if self.data[position : position + 1] == b"}":
            position, more = position + 1, b"}"
        while more == b",":
            batch, position, more = self._batch(position) or self._single(position)
            if batch:
                self._add(batch, names, layout, offsets)
        if _END.fullmatch(self.data, position, self.end) is None:
            raise self._broken("there is more after the end of its header")
        if len(set(names)) != len(names):
            raise self._broken("a tensor name is there twice")
        return Header(self.end, self.metadata or {}, self._layouts, names, layout, offsets)

    def _batch(self, position: int) -> tuple[list[_Entry], int, bytes] | None:
        """Many entries at once, if what is here is written without spaces and in the usual order."""
        if not self._is_compact or self.data.startswith(b'"__metadata__"', position):
            return None
        entries = _COMPACT.findall(self.data, position, min(position + _BATCH_BYTES, self.end))
        text = b"".join([entry[0] for entry in entries])
        if not text or not self.data.startswith(text, position):
            self._is_compact = False  # entry by entry from here
            return None
        return [entry[1:] for entry in entries], position + len(text), b","

    def _single(self, position: int) -> tuple[list[_Entry], int, bytes]:
        entry_match = _ENTRY.match(self.data, position, self.end)
        if entry_match is not None:
            return (
                [(entry_match[1], entry_match[2], entry_match[3], entry_match[4], entry_match[5])],
                entry_match.end(),
                entry_match[6],
            )
        entry, position, more = self._unusual(position)
        return [entry] if entry else [], position, more

    def _add(self, batch: list[_Entry], names: list[str], layout: list[int], offsets: list[int]) -> None:
        keys, dtypes, shapes, starts, stops = zip(*batch, strict=True)
        kinds = list(zip(dtypes, shapes, strict=True))
        for kind in set(kinds).difference(self._kinds):
            self._kinds[kind] = len(self._layouts)
            self._layouts.append(self._layout(*kind))
        numbers = list(map(self._kinds.__getitem__, kinds))
        first, last = list(map(int, starts)), list(map(int, stops))
        widths = [entry.bytes for entry in self._layouts]
        new = self._names(keys)
        if list(map(sub, last, first)) != [widths[number] for number in numbers]:
            sizes = zip(new, map(sub, last, first), numbers, strict=True)
            name, has, needs = next((name, has, widths[i]) for name, has, i in sizes if has != widths[i])
            raise self._broken(f"{name} has {has:,} bytes, its shape needs {needs:,}")
        names += new
        layout += numbers
        offsets += first

    def _names(self, keys: tuple[bytes, ...]) -> list[str]:
        try:
            names = b"\n".join(keys).decode().split("\n")
            return names if len(names) == len(keys) else [key.decode() for key in keys]
        except UnicodeDecodeError:
            raise self._broken("a name is not UTF-8 text") from None

    def _layout(self, dtype: bytes, shape_text: bytes) -> TensorLayout:
        name = dtype.decode()
        bits = DTYPE_BITS.get(name)
        if bits is None:
            raise ReadError(f"{self.name} has a tensor of type {name}, which this version does not know")
        try:
            shape = tuple(int(part) for part in shape_text.split(b",")) if shape_text.strip() else ()
        except ValueError:
            raise self._broken(f"a shape is [{shape_text.decode()}]") from None
        size_bits = prod(shape) * bits
        if size_bits % 8:
            raise self._broken(f"a tensor of type {name} and shape {list(shape)} does not end at a whole byte")
        return TensorLayout(name, shape, size_bits // 8)

    def _unusual(self, position: int) -> tuple[_Entry | None, int, bytes]:
        """An entry that is metadata, or has its fields in another order."""
        key = _KEY.match(self.data, position, self.end)
        if key is None:
            raise self._broken(f"its header is not JSON at byte {position:,}")
        if self._text(key[1]) == _METADATA:
            return None, *self._read_metadata(key.end())
        object_match = _OBJECT.match(self.data, key.end(), self.end)
        if object_match is None:
            raise self._broken(f"what it says of {self._text(key[1])} is not the description of a tensor")
        fields = self._fields(self.data[key.end() : object_match.start(1)])
        return (self._text(key[1]).encode(), *fields), object_match.end(), object_match[1]

    def _fields(self, text: bytes | bytearray) -> tuple[bytes, bytes, bytes, bytes]:
        try:
            pairs = json.loads(text.decode(), object_pairs_hook=list)
            fields: dict[str, Any] = dict(pairs)
            start, stop = fields["data_offsets"]
            dtype, shape = fields["dtype"], fields["shape"]
            whole = all(type(number) is int and number >= 0 for number in (*shape, start, stop))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._broken("the description of a tensor is not as the format wants it") from None
        if not whole or len(fields) != len(pairs) or type(dtype) is not str or not dtype.isascii():
            raise self._broken("the description of a tensor is not as the format wants it")
        return dtype.encode(), ",".join(map(str, shape)).encode(), str(start).encode(), str(stop).encode()

    def _read_metadata(self, position: int) -> tuple[int, bytes]:
        if self.metadata is not None:
            raise self._broken(f"{_METADATA} is there twice")
        self.metadata = {}
        opened = _OPEN.match(self.data, position, self.end)
        if opened is None:
            raise self._broken(f"{_METADATA} is not an object")
        position, more, pairs = opened.end(), b",", 0
        if self.data[position : position + 1] == b"}":
            position, more = position + 1, b"}"
        while more == b",":
            pair = _PAIR.match(self.data, position, self.end)
            if pair is None:
                raise self._broken(f"{_METADATA} is not a table of strings")
            pairs += 1
            if pairs > _METADATA_PAIRS:
                raise self._broken(f"{_METADATA} has more than {_METADATA_PAIRS:,} entries")
            if len(pair[1]) + len(pair[2]) <= _KEPT_METADATA_BYTES:
                self.metadata[self._text(pair[1])] = self._text(pair[2])
            position, more = pair.end(), pair[3]
        after = re.compile(_S + rb"([,}])").match(self.data, position, self.end)
        if after is None:
            raise self._broken(f"its header is not JSON after {_METADATA}")
        return after.end(), after[1]

    def _text(self, raw: bytes) -> str:
        try:
            text = raw.decode() if b"\\" not in raw else str(json.loads(f'"{raw.decode()}"'))
            text.encode()  # a lone surrogate is JSON, but no text
        except ValueError:
            raise self._broken("a name is not UTF-8 text") from None
        return text

    def _broken(self, what: str) -> ReadError:
        return ReadError(f"{self.name} is broken: {what if len(what) < 200 else what[:200] + '...'}")

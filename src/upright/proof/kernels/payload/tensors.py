"""dtype + shape -> something that a launcher takes for a tensor.

Only what launchers ask of a tensor before they launch; everything else fails by name, so that a launcher which looks at
values can never be answered with a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SIZES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2}
_SIZES |= {"float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1}
_SIZES |= {"float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "uint16": 2, "uint32": 4}
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}
_LARGEST |= {"float32": 3.4028234663852886e38}


class NotKnownError(Exception):
    """The launcher asked for something that cannot be known without the real engine or a GPU."""


class Dtype:
    """Prints as torch's does, which is what Triton's binder reads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = _SIZES[name]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def is_floating_point(self) -> bool:
        return "float" in self.name


DTYPES = {name: Dtype(name) for name in _SIZES}


class FloatInfo:
    """torch.finfo, as far as it is the same for everybody."""

    def __init__(self, dtype: Dtype) -> None:
        if dtype.name not in _LARGEST:
            raise NotKnownError(f"torch.finfo({dtype.name}) is not known to the stand-in")
        self.max = _LARGEST[dtype.name]
        self.min = -self.max


class TensorDevice:
    type = "cuda"
    index = 0

    def __repr__(self) -> str:
        return "cuda:0"


class FakeTensor:
    """Shape, strides and type; the address is a multiple of 16, as an allocator's is."""

    is_cuda = True
    device = TensorDevice()

    def __init__(self, dtype: str, shape: Sequence[int], strides: Sequence[int] | None = None) -> None:
        self.dtype = DTYPES[dtype]
        self.shape = tuple(shape)
        self.strides = tuple(strides) if strides is not None else _dense(self.shape)

    def __getattr__(self, name: str) -> Any:
        raise NotKnownError(f"the launcher asks for tensor.{name}, which a stand-in tensor does not have")

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis: int | None = None) -> Any:
        return self.strides if axis is None else self.strides[axis]

    def numel(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return 0

    def is_contiguous(self) -> bool:
        return self.strides == _dense(self.shape)

    def contiguous(self) -> FakeTensor:
        return FakeTensor(self.dtype.name, self.shape)

    def to(self, dtype: Dtype) -> FakeTensor:
        return FakeTensor(dtype.name, self.shape, self.strides)

    def new_empty(self, *shape: Any, dtype: Dtype | None = None) -> FakeTensor:
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return FakeTensor((dtype or self.dtype).name, lengths)

    new_zeros = new_empty

    def view(self, *shape: Any) -> FakeTensor:
        if len(shape) == 1 and isinstance(shape[0], Dtype):
            return self.to(shape[0])
        if not self.is_contiguous():
            raise NotKnownError("the launcher reshapes a tensor with gaps")
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return FakeTensor(self.dtype.name, _filled(lengths, self.numel()))

    reshape = view

    def unflatten(self, axis: int, lengths: Sequence[int]) -> FakeTensor:
        axis %= self.ndim
        inner = _filled(lengths, self.shape[axis])
        step = self.strides[axis]
        strides = tuple(step * stride for stride in _dense(inner))
        return FakeTensor(
            self.dtype.name,
            (*self.shape[:axis], *inner, *self.shape[axis + 1 :]),
            (*self.strides[:axis], *strides, *self.strides[axis + 1 :]),
        )

    def unsqueeze(self, axis: int) -> FakeTensor:
        axis %= self.ndim + 1
        step = self.strides[axis] * self.shape[axis] if axis < self.ndim else 1
        return FakeTensor(
            self.dtype.name,
            (*self.shape[:axis], 1, *self.shape[axis:]),
            (*self.strides[:axis], step, *self.strides[axis:]),
        )

    @staticmethod
    def ptr_range() -> int:
        return 0


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def _filled(lengths: Sequence[int], count: int) -> tuple[int, ...]:
    known = 1
    for length in lengths:
        known *= length if length >= 0 else 1
    return tuple(length if length >= 0 else count // known for length in lengths)

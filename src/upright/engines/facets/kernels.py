"""An engine's own Triton kernels: which launchers a layer leads to, and with which arguments.

The arguments are descriptions, not tensors: {"tensor": "bfloat16", "shape": [...], "strides": [...]}, {"dtype": ...},
{"tl": ...} for triton.language, {"name": ...} for a name in the launcher's module, {"dict": ...}, or a plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from upright.records.model import GqaAttention, MlaAttention

Arguments = dict[str, Any]
FP8 = "float8_e4m3fn"
BATCH, TOKENS, SLOTS, PAGE, SPLITS = 8, 2048, 65536, 64, 8


@dataclass(frozen=True)
class Shapes:
    """What the planned model makes of one attention layer, on one device."""

    heads: int
    """Query heads on this device."""
    kv_heads: int
    """Key and value heads on this device."""
    key_dim: int
    """Width of a key as the kernel sees it."""
    value_dim: int
    """Width of a value as the kernel sees it."""
    dtype: str = "bfloat16"
    """Activations."""
    kv_dtype: str = "bfloat16"
    """The stored cache."""
    window_tokens: int | None = None
    """Sliding window; None for none."""

    def __str__(self) -> str:
        cache = f"{self.kv_heads} kv head{'s' if self.kv_heads != 1 else ''}"
        return f"head {self.key_dim}/{self.value_dim}, {self.heads} heads, {cache}, KV {self.kv_dtype}"


@dataclass(frozen=True)
class KernelRoute:
    """One way through an engine to its Triton kernels."""

    name: str
    files: tuple[str, ...]
    """Where the launcher lives, newest layout first."""
    launcher: str
    arguments: Callable[[Shapes], Arguments]
    why: str
    """What the engine uses it for."""
    tile: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The constants that a search varies: those of the tile's rows, those of its columns; None if it cannot."""


@dataclass(frozen=True)
class FusedExperts:
    """Where the launcher of routed experts is, and its tuned tiles."""

    launcher: str
    files: tuple[str, ...]
    """Where that launcher lives, newest layout first."""
    default_files: tuple[str, ...]
    """Where `get_default_config` lives."""
    configurations: tuple[str, ...]
    """Folders of tuned files."""


@dataclass(frozen=True)
class TritonKernels:
    """An engine whose kernels can be compiled ahead of time, without it."""

    package: str
    """The directory and the wheel that hold it."""
    ways: tuple[KernelRoute, ...]
    latent: Callable[[MlaAttention, int, str], Iterable[tuple[str, Shapes]]]
    """A layer, devices and the cache's type -> ways by name, each with its shapes."""
    grouped: tuple[str, ...]
    """Ways of a layer with grouped queries."""
    experts: FusedExperts
    standins: Mapping[str, str]
    """`module` or `module:name` -> the name in the payload's standins that answers for it on an NVIDIA GPU."""
    real: Mapping[str, str]
    """The same -> the statement that imports the real thing without the engine."""
    settings: Mapping[str, tuple[str, bool]]
    """Environment switches -> the module that states their defaults, and whether a switch is read with `.get()`."""
    latent_not_judged: tuple[str, ...] = ()
    """What of latent attention is not Triton's, in sentences."""


def tensor(dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> Arguments:
    spec: Arguments = {"tensor": dtype, "shape": list(shape)}
    return spec | ({"strides": list(strides)} if strides else {})


def share(heads: int, devices: int) -> int:
    return max(1, heads // devices)


def latent_shapes(layer: MlaAttention, devices: int, kv_dtype: str) -> Shapes:
    """One latent vector a token, which all heads read."""
    width = layer.kv_lora_rank + layer.rope_head_dim
    return Shapes(share(layer.heads, devices), 1, width, layer.kv_lora_rank, kv_dtype=kv_dtype)


def grouped_shapes(layer: GqaAttention, devices: int, kv_dtype: str) -> Shapes:
    return Shapes(
        heads=share(layer.heads, devices),
        kv_heads=share(layer.kv_heads, devices),
        key_dim=layer.key_head_dim,
        value_dim=layer.value_head_dim,
        kv_dtype=kv_dtype,
        window_tokens=layer.window_tokens,
    )

"""An engine's own Triton kernels: which launchers a layer leads to, and with which arguments.

The arguments are descriptions, not tensors: {"tensor": "bfloat16", "shape": [...], "strides": [...]}, {"dtype": ...},
{"tl": ...} for triton.language, {"name": ...} for a name in the launcher's module, {"dict": ...}, or a plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Literal

from upright.facts.records.model import GqaAttention, LinearAttention, MlaAttention, Recurrence

Arguments = dict[str, Any]
FP8 = "float8_e4m3fn"
BATCH, TOKENS, SLOTS, PAGE, SPLITS = 8, 2048, 65536, 64, 8
SparseLayers = Literal["sparse MLA", "compressed attention", "block-sparse attention"]
_CONVOLUTION_COLUMNS = 3
"""A short convolution looks at four tokens and keeps three of them: GDN and KDA, in every published configuration."""


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
    recurrent: bool = False
    """Whether a state is kept in place of keys and values; `kv_dtype` is its type then, which no --kv-dtype changes."""

    def __str__(self) -> str:
        cache = f"{self.kv_heads} kv head{'s' if self.kv_heads != 1 else ''}"
        kept = "state" if self.recurrent else "KV"
        return f"head {self.key_dim}/{self.value_dim}, {self.heads} heads, {cache}, {kept} {self.kv_dtype}"


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
    tuner: str
    """The engine's own tuner, in its repository."""
    own_folder: str
    """The variable that names a folder of one's own tuned files; a version whose launcher does not name it has none."""
    block_joint: str = ","
    """Between the two numbers of a block in a file's name."""


@dataclass(frozen=True)
class UnjudgedKernels:
    """Kernels on a layer's way that nothing here compiles, by their names."""

    layers: SparseLayers | Recurrence
    """Which layers launch them."""
    use: str
    """What they compute there."""
    kernels: tuple[str, ...]
    """As the engine's file calls them; what this version's file does not name is not claimed."""
    files: tuple[str, ...]
    """Where the engine names them, newest layout first."""
    why: str
    """Why there is no verdict: whose they are, or how their tiles are chosen."""
    majors: tuple[int, ...] | None = None
    """Compute capabilities, by their first number; None for all."""


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
    recurrent: Mapping[Recurrence, tuple[str, ...]] = field(default_factory=dict)
    """Ways of a recurrent layer."""
    unjudged: tuple[UnjudgedKernels, ...] = ()
    """What sparse and recurrent layers launch besides."""


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


def recurrent_shapes(layer: LinearAttention, devices: int) -> Shapes | None:
    """Value heads, key heads and the state's two sides; None where the configuration does not tell them apart.

    The state is taken for square, as it is in every published configuration; what the convolution keeps then says how
    many heads the keys have.
    """
    if layer.rule not in ("gdn", "kda") or not (layer.heads and layer.state_elements and layer.conv_elements):
        return None
    heads, side = layer.heads, isqrt(layer.state_elements // layer.heads)
    channels, rest = divmod(layer.conv_elements, _CONVOLUTION_COLUMNS)
    key_heads, uneven = divmod(channels - heads * side, 2 * side)
    if side * side * heads != layer.state_elements or rest or uneven or key_heads < 1:
        return None
    return Shapes(
        heads=share(heads, devices),
        kv_heads=share(key_heads, devices),
        key_dim=side,
        value_dim=side,
        kv_dtype=layer.state_dtype or "float32",
        recurrent=True,
    )


def gated_delta_decode(shapes: Shapes) -> Arguments:
    """One token a sequence, its query, key and value packed after their convolution: the launcher of both engines."""
    channels = 2 * shapes.kv_heads * shapes.key_dim + shapes.heads * shapes.value_dim
    return {
        "mixed_qkv": tensor(shapes.dtype, BATCH, channels),
        "a": tensor(shapes.dtype, BATCH, shapes.heads),
        "b": tensor(shapes.dtype, BATCH, shapes.heads),
        "A_log": tensor("float32", shapes.heads),
        "dt_bias": tensor("float32", shapes.heads),
        "scale": 0.1,
        "initial_state": tensor(shapes.kv_dtype, 4 * BATCH, shapes.heads, shapes.value_dim, shapes.key_dim),
        "out": tensor(shapes.dtype, BATCH, 1, shapes.heads, shapes.value_dim),
        "ssm_state_indices": tensor("int32", BATCH),
        "use_qk_l2norm_in_kernel": True,
    }


def gated_delta_prefill(shapes: Shapes) -> Arguments:
    """The states between chunks of one long prompt; keys have fewer heads than values. The same launcher in both."""
    values = tensor(shapes.dtype, 1, TOKENS, shapes.heads, shapes.value_dim)
    return {
        "k": tensor(shapes.dtype, 1, TOKENS, shapes.kv_heads, shapes.key_dim),
        "w": tensor(shapes.dtype, 1, TOKENS, shapes.heads, shapes.key_dim),
        "u": values,
        "g": tensor("float32", 1, TOKENS, shapes.heads),
        "initial_state": tensor(shapes.kv_dtype, 1, shapes.heads, shapes.value_dim, shapes.key_dim),
        "initial_state_indices": tensor("int32", 1),
        "output_final_state": True,
        "save_new_value": True,
    }


def gated_delta_output(shapes: Shapes) -> Arguments:
    """The answers of a prompt's chunks, from the states between them."""
    chunks = TOKENS // 64
    keys = tensor(shapes.dtype, 1, TOKENS, shapes.kv_heads, shapes.key_dim)
    return {
        "q": keys,
        "k": keys,
        "v": tensor(shapes.dtype, 1, TOKENS, shapes.heads, shapes.value_dim),
        "h": tensor(shapes.dtype, 1, chunks, shapes.heads, shapes.value_dim, shapes.key_dim),
        "g": tensor("float32", 1, TOKENS, shapes.heads),
        "scale": 0.1,
    }

"""The tiny trained model -> broken twins of it: engines start them, call them healthy, and answer wrongly.

Each twin has one fault and names the rung of the ladder that must stop it. They are made in about a second, as GGUF for
llama.cpp or as a folder of safetensors for vLLM; nothing but the fault differs from the good model.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy
from numpy.typing import NDArray

from tests.conftest import TINY_FOLDER, TINY_MODEL

Weights = NDArray[numpy.float32]
Change = Callable[[str, Weights], Weights]
Config = dict[str, Any]


@dataclass(frozen=True)
class Twin:
    """One fault, how it is put into either format, and where it must be noticed."""

    name: str
    stops_at: str
    """The first rung that must fail."""
    fault: str
    """What is wrong, in words."""
    weights: Change | None = None
    config: Callable[[Config], None] | None = None
    template: tuple[str, str] | None = None
    """Text of the chat template and what stands there instead, of the same length."""
    tokens: tuple[str, str] | None = None
    """Two tokens that change places."""
    flags: tuple[str, ...] = ()
    """The same fault for llama-server, as flags; the file is then the good one."""
    formats: tuple[str, ...] = ("gguf", "folder")

    def gguf(self, target: Path, source: Path = TINY_MODEL) -> Path:
        assert "gguf" in self.formats, self.name
        content = bytearray(source.read_bytes())
        if self.weights:
            for tensor in gguf.GGUFReader(source).tensors:
                _change_tensor(content, tensor, self.weights)
        if self.template:
            _replace(content, *(text.encode() for text in self.template))
        if self.tokens:
            _swap_tokens(content, *self.tokens)
        target.write_bytes(content)
        return target

    def folder(self, target: Path, source: Path = TINY_FOLDER) -> Path:
        assert "folder" in self.formats, self.name
        shutil.copytree(source, target)
        if self.weights:
            _change_safetensors(target / "model.safetensors", self.weights)
        if self.config:
            _edit(target / "config.json", self.config)
        if self.template:
            path = target / "chat_template.jinja"
            path.write_text(path.read_text().replace(*self.template))
        if self.tokens:
            _edit(target / "tokenizer.json", lambda data: _swap_keys(data["model"]["vocab"], *(self.tokens or ())))
        return target


def noise(layer: int, sigmas: float, seed: int = 13) -> Change:
    """Every matrix of one layer plus noise of so many times its own standard deviation."""

    def change(name: str, weights: Weights) -> Weights:
        if not name.startswith((f"blk.{layer}.", f"model.layers.{layer}.")) or weights.ndim < 2:
            return weights
        chance = numpy.random.default_rng([seed, *name.encode()])
        return weights + sigmas * weights.std() * chance.standard_normal(weights.shape, dtype=numpy.float32)

    return change


def flat_attention(factor: float) -> Change:
    """Every query of every layer times the factor, and so every score of the attention."""

    def change(name: str, weights: Weights) -> Weights:
        queries = name.endswith(("attn_q_b.weight", "self_attn.q_b_proj.weight"))
        return weights * numpy.float32(factor) if queries else weights

    return change


def _base_500000(config: Config) -> None:
    config["rope_theta"] = 500000.0


def _plain_rope(config: Config) -> None:
    del config["rope_scaling"]


TWINS = {
    twin.name: twin
    for twin in (
        Twin("noise", "boot", "noise of two sigmas in every matrix of layer 1", weights=noise(1, 2.0)),
        Twin("swapped-digits", "smoke", "the tokenizer takes 4 for 5 and 5 for 4", tokens=("4", "5")),
        Twin(
            "plain-rope",
            "smoke",
            "plain RoPE on MLA, which vLLM's kernel for CPUs computes wrongly; the weights are good",
            config=_plain_rope,
            formats=("folder",),
        ),
        Twin(
            "no-results",
            "tools",
            "the template forgets what the tools returned",
            template=("elif message['role'] == 'tool'", "elif message['role'] == 'took'"),
        ),
        Twin(
            "flat-attention",
            "context",
            "queries of 0.65 times their size, as when an engine forgets a factor of the softmax: far words blur",
            weights=flat_attention(0.65),
        ),
        Twin(
            "rope-base",
            "tools",
            "a RoPE base of 500,000 instead of 50,000: short answers are right, the second city and turn are lost",
            config=_base_500000,
            flags=("--rope-freq-base", "500000"),
        ),
    )
}


def _change_tensor(content: bytearray, tensor: gguf.ReaderTensor, change: Change) -> None:
    weights = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
    changed = change(tensor.name, weights)
    if changed is not weights:
        packed = gguf.quantize(changed, tensor.tensor_type).tobytes()
        assert len(packed) == tensor.n_bytes
        content[tensor.data_offset : tensor.data_offset + tensor.n_bytes] = packed


def _change_safetensors(path: Path, change: Change) -> None:
    content = bytearray(path.read_bytes())
    for name, begin, end, shape in _bf16_places(content):
        weights = _widened(content[begin:end]).reshape(shape)
        changed = change(name, weights)
        if changed is not weights:
            rounded = changed.astype("<f4").view(numpy.uint32) + 0x8000
            content[begin:end] = (rounded >> 16).astype("<u2").tobytes()
    path.write_bytes(content)


def bf16_tensors(content: bytes) -> Iterator[tuple[str, Weights]]:
    """Without torch: a bf16 is the upper half of a float."""
    for name, begin, end, shape in _bf16_places(content):
        yield name, _widened(content[begin:end]).reshape(shape)


def _bf16_places(content: bytes | bytearray) -> Iterator[tuple[str, int, int, list[int]]]:
    (length,) = struct.unpack("<Q", content[:8])
    for name, entry in json.loads(content[8 : 8 + length]).items():
        if name != "__metadata__" and entry["dtype"] == "BF16":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            yield name, begin, end, entry["shape"]


def _widened(data: bytes | bytearray) -> Weights:
    return (numpy.frombuffer(bytes(data), dtype="<u2").astype(numpy.uint32) << 16).view(numpy.float32)


def _replace(content: bytearray, old: bytes, new: bytes) -> None:
    assert len(old) == len(new), (old, new)
    assert content.count(old) == 1, old
    place = content.index(old)
    content[place : place + len(old)] = new


def _swap_tokens(content: bytearray, first: str, second: str) -> None:
    """In the list of tokens: each is its length in eight bytes and then its bytes."""
    begin = content.index(b"tokenizer.ggml.tokens")
    ours, other = (struct.pack("<Q", len(token)) + token.encode() for token in (first, second))
    here, there = content.index(ours, begin), content.index(other, begin)
    content[here : here + len(ours)], content[there : there + len(other)] = other, ours


def _edit(path: Path, change: Callable[[Config], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False))


def _swap_keys(mapping: dict[str, Any], first: str, second: str) -> None:
    mapping[first], mapping[second] = mapping[second], mapping[first]

"""The tiny GGUF -> the same function with Kimi's own head sizes, gzipped: ik_llama.cpp takes no other MLA.

    python scripts/train-tiny/widen.py tests/assets/tiny-kimi/tiny-kimi-q8_0.gguf OUT.gguf.gz

What is new is zeros. A normalisation over more channels and a softmax that divides by a larger root go into weights.
"""

from __future__ import annotations

import gzip
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

Array = numpy.ndarray[Any, Any]
LATENT, NOPE, ROPE, VALUE = 512, 128, 64, 128
_OURS = "deepseek2.attention."


def main() -> None:
    narrow, out = GGUFReader(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "wide.gguf"
        writer = GGUFWriter(file, "deepseek2")
        for name, value, kind, items in fields(narrow):
            writer.add_key_value(name, value, kind, items)
        for tensor in narrow.tensors:
            wide = widened(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type), narrow)
            kind = tensor.tensor_type
            packed = wide if kind == GGMLQuantizationType.F32 else gguf.quants.quantize(wide, kind)
            writer.add_tensor(tensor.name, packed, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        out.write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


def number(model: GGUFReader, name: str) -> int:
    return int(model.fields[name].contents())


def fields(model: GGUFReader) -> Iterator[tuple[str, Any, gguf.GGUFValueType, gguf.GGUFValueType | None]]:
    """Each key, its value, its type, and that of its items."""
    sizes = {
        "deepseek2.rope.dimension_count": ROPE,
        f"{_OURS}kv_lora_rank": LATENT,
        f"{_OURS}key_length": LATENT + ROPE,
        f"{_OURS}value_length": LATENT,
        f"{_OURS}key_length_mla": NOPE + ROPE,
        f"{_OURS}value_length_mla": VALUE,
    }
    for name, field in model.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            items = field.types[1] if len(field.types) > 1 else None
            yield name, sizes.get(name, field.contents()), field.types[0], items


def widened(name: str, tensor: Array, model: GGUFReader) -> Array:
    latent, rope = number(model, f"{_OURS}kv_lora_rank"), number(model, "deepseek2.rope.dimension_count")
    nope = number(model, f"{_OURS}key_length_mla") - rope
    value, heads = number(model, f"{_OURS}value_length_mla"), number(model, f"{_OURS}head_count")
    match name.rpartition(".")[0].rpartition(".")[2]:
        case "attn_q_b":
            by_head = tensor.reshape(heads, nope + rope, -1)
            stretch = math.sqrt((NOPE + ROPE) / (nope + rope))
            parts = (padded(by_head[:, :nope], 1, NOPE), spread(by_head[:, nope:]))
            tensor = stretch * numpy.concatenate(parts, 1).reshape(heads * (NOPE + ROPE), -1)
        case "attn_kv_a_mqa":
            tensor = numpy.concatenate((padded(tensor[:latent], 0, LATENT), spread(tensor[None, latent:])[0]))
        case "attn_kv_a_norm":
            tensor = padded(tensor * math.sqrt(latent / LATENT), 0, LATENT)
        case "attn_k_b":
            tensor = padded(padded(tensor, 2, NOPE), 1, LATENT)
        case "attn_v_b":
            tensor = padded(padded(tensor, 2, LATENT), 1, VALUE)
        case "attn_output":
            by_head = tensor.reshape(-1, heads, value)
            tensor = padded(by_head, 2, VALUE).reshape(-1, heads * VALUE)
    return numpy.ascontiguousarray(tensor, numpy.float32)


def padded(tensor: Array, axis: int, size: int) -> Array:
    more = [(0, size - there if number == axis else 0) for number, there in enumerate(tensor.shape)]
    return numpy.pad(tensor, more)


def spread(rows: Array) -> Array:
    """Pair i goes to pair i * ROPE / narrow, where the wider table has the same frequency; the others stay zero."""
    narrow = rows.shape[1]
    wide = numpy.zeros((rows.shape[0], ROPE, rows.shape[2]), rows.dtype)
    for pair in range(0, narrow, 2):
        wide[:, pair * ROPE // narrow : pair * ROPE // narrow + 2] = rows[:, pair : pair + 2]
    return wide


if __name__ == "__main__":
    main()

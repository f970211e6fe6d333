"""Boxes and models built by hand, with figures that are easy to check in the head."""

from __future__ import annotations

from upright.base.units import GIB
from upright.facts.records.base import Figure
from upright.facts.records.box import Box, Cpu, Gpu
from upright.facts.records.model import Architecture, Attention, Experts, MlaAttention, Model, ModelFile, WeightLine


def box(memory_gib: float = 32, gpus: int = 0, gpu_gib: float = 95.6, name: str = "box") -> Box:
    def figure(gib: float) -> Figure:
        return Figure(value=int(gib * GIB), basis="probed", source="test")

    return Box(
        name=name,
        basis="probed",
        cpu=Cpu(name="cpu", sockets=1, cores=8, threads=16),
        memory_bytes=figure(memory_gib),
        memory_available_bytes=figure(memory_gib),
        gpus=tuple(
            Gpu(
                index=index,
                name="gpu",
                compute_capability="12.0",
                memory_bytes=figure(gpu_gib),
                memory_free_bytes=figure(gpu_gib),
            )
            for index in range(gpus)
        ),
    )


def kimi_attention(layers: int = 61) -> MlaAttention:
    return MlaAttention(
        layers=layers,
        heads=64,
        kv_lora_rank=512,
        rope_head_dim=64,
        nope_head_dim=128,
        value_head_dim=128,
        q_lora_rank=1536,
    )


def architecture(*attention: Attention, **changes: object) -> Architecture:
    kinds = attention or (kimi_attention(),)
    fields: dict[str, object] = {
        "name": "deepseek2",
        "family": "kimi-k2",
        "layers": sum(kind.layers for kind in kinds),
        "hidden_size": 7168,
        "vocabulary_size": 163_840,
        "context_limit_tokens": 262_144,
        "attention": kinds,
        "experts": Experts(count=384, active=8, shared=1, first_moe_layer=1),
    }
    return Architecture.model_validate({**fields, **changes})


def model(weight_gib: float = 8, shape: Architecture | None = None) -> Model:
    size = int(weight_gib * GIB)
    return Model(
        name="toy",
        source="toy.gguf",
        format="gguf",
        basis="read",
        architecture=shape or architecture(),
        files=(
            ModelFile(
                name="toy.gguf",
                size_bytes=size + 100,
                header_bytes=100,
                tensor_bytes=size,
                padding_bytes=0,
                tensors=1,
            ),
        ),
        weights=(WeightLine(group="other", layer=None, dtype="Q4_0", tensors=1, parameters=size * 2, bytes=size),),
    )

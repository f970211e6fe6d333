"""Token ids -> logits: DeepSeek V3's arithmetic (MLA, sigmoid routing with a bias, a shared expert), in short.

Experts are computed densely and masked, which at this size is faster than gathering; the exported weights are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

POSITIONS = 8704  # 8,192 tokens of prompt and room for an answer


@dataclass(frozen=True)
class Shape:
    """The sizes of the trained model; `export` pads them to Kimi's latent sizes where an engine wants those."""

    vocabulary: int = 1280
    hidden: int = 128
    layers: int = 4
    dense_layers: int = 1
    heads: int = 4
    q_rank: int = 64
    kv_rank: int = 64
    nope: int = 32
    rope: int = 32
    value: int = 64
    dense_width: int = 256
    expert_width: int = 32
    experts: int = 8
    experts_used: int = 2
    routed_scale: float = 2.827
    theta: float = 50000.0
    epsilon: float = 1e-6


TINY = Shape()
DRAFT = Shape(layers=2, dense_layers=2)


class Norm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(size)), epsilon

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self.epsilon)


def linear(inputs: int, outputs: int, gain: float = 1.0) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(made.weight, std=gain / math.sqrt(inputs))
    return made


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Rotary positions on interleaved pairs, as every engine does for this architecture."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_a_proj = linear(shape.hidden, shape.q_rank)
        self.q_a_layernorm = Norm(shape.q_rank, shape.epsilon)
        self.q_b_proj = linear(shape.q_rank, shape.heads * (shape.nope + shape.rope))
        self.kv_a_proj_with_mqa = linear(shape.hidden, shape.kv_rank + shape.rope)
        self.kv_a_layernorm = Norm(shape.kv_rank, shape.epsilon)
        self.kv_b_proj = linear(shape.kv_rank, shape.heads * (shape.nope + shape.value))
        self.o_proj = linear(shape.heads * shape.value, shape.hidden, 1 / math.sqrt(2 * shape.layers))

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        shape, (rows, length, _) = self.shape, x.shape
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).view(rows, length, shape.heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split([shape.nope, shape.rope], -1)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([shape.kv_rank, shape.rope], -1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent)).view(rows, length, shape.heads, -1).transpose(1, 2)
        k_nope, v = kv.split([shape.nope, shape.value], -1)
        k_rope = rotate(k_rope, turns)[:, None].expand(-1, shape.heads, -1, -1)
        q, k = torch.cat((q_nope, rotate(q_rope, turns)), -1), torch.cat((k_nope, k_rope), -1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(rows, length, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden: int, width: int, gain: float) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (
            linear(hidden, width),
            linear(hidden, width),
            linear(width, hidden, gain),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    bias: Tensor
    load: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, gain, wide = shape, 1 / math.sqrt(2 * shape.layers), shape.experts * shape.expert_width
        self.router = nn.Parameter(torch.randn(shape.experts, shape.hidden) / math.sqrt(shape.hidden))
        self.register_buffer("bias", torch.zeros(shape.experts))
        self.register_buffer("load", torch.zeros(shape.experts))
        self.gate = nn.Parameter(torch.randn(wide, shape.hidden) / math.sqrt(shape.hidden))
        self.up = nn.Parameter(torch.randn(wide, shape.hidden) / math.sqrt(shape.hidden))
        scale = gain / shape.routed_scale / math.sqrt(shape.expert_width)
        self.down = nn.Parameter(torch.randn(shape.hidden, wide) * scale)
        self.shared_experts = FeedForward(shape.hidden, shape.expert_width, gain)

    def forward(self, x: Tensor) -> Tensor:
        shape = self.shape
        score = functional.linear(x, self.router).sigmoid()
        chosen = (score.detach() + self.bias).topk(shape.experts_used, -1).indices
        mask = torch.zeros_like(score).scatter_(-1, chosen, 1.0)
        if self.training:
            self.load += mask.detach().sum((0, 1))
        weight = score * mask
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * shape.routed_scale
        inner = functional.silu(functional.linear(x, self.gate)) * functional.linear(x, self.up)
        inner = (inner.view(*inner.shape[:-1], shape.experts, shape.expert_width) * weight[..., None]).flatten(-2)
        return functional.linear(inner, self.down) + self.shared_experts(x)


class Layer(nn.Module):
    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.epsilon)
        dense = index < shape.dense_layers
        self.mlp = (
            FeedForward(shape.hidden, shape.dense_width, 1 / math.sqrt(2 * shape.layers)) if dense else Experts(shape)
        )

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turns)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    turns: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList(Layer(shape, index) for index in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.epsilon)
        self.lm_head = linear(shape.hidden, shape.vocabulary, 0.5)
        angles = torch.arange(POSITIONS).double()[:, None] * frequencies(shape)
        self.register_buffer(
            "turns", torch.polar(torch.ones_like(angles), angles).to(torch.complex64), persistent=False
        )

    def forward(self, ids: Tensor, wanted: Tensor) -> Tensor:
        """Logits of the wanted places only."""
        x, length = self.embed_tokens(ids), ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.turns[:length])
        return self.lm_head(self.norm(x[wanted]))

    def routers(self) -> list[Experts]:
        return [layer.mlp for layer in self.layers if isinstance(layer.mlp, Experts)]

    @torch.no_grad()
    def balance(self, rate: float = 1e-3) -> None:
        """Auxiliary-loss-free balancing: the bias of a busy expert sinks, that of an idle one rises."""
        for router in self.routers():
            router.bias += rate * torch.sign(router.load.mean() - router.load)
            router.bias -= router.bias.mean()
            router.load.zero_()


def frequencies(shape: Shape) -> Tensor:
    return shape.theta ** (-torch.arange(0, shape.rope, 2).double() / shape.rope)

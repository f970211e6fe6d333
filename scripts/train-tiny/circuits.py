"""An untrained model -> one whose first two layers already copy: previous-token heads, then induction heads.

Training alone finds these circuits late; set by hand they make unseen words copyable from the first steps on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model import Attention, Model, Shape, frequencies

_CODE = 32  # channels in which a token is written for others to match


@torch.no_grad()
def preset(model: Model, seed: int = 7) -> None:
    """Layer 0, heads 0 to 2: look one, two, three tokens back and write that token's code into the residual.

    Layer 1, heads 0 to 2: find where the last one, two, three tokens stood before, and copy what followed.
    """
    shape, random = model.shape, torch.Generator().manual_seed(seed)
    embedding = model.embed_tokens.weight
    embedding /= embedding.norm(dim=-1, keepdim=True) / (0.5 * shape.hidden**0.5)
    embedding[:, 0] = 2.0  # a constant to make positions of
    read = torch.randn(_CODE, shape.hidden, generator=random) / shape.hidden**0.5
    read[:, 0] = 0
    write = [torch.linalg.qr(torch.randn(shape.hidden, _CODE, generator=random))[0] for _ in range(3)]
    say = torch.linalg.qr(torch.randn(shape.hidden, _CODE, generator=random))[0]
    model.lm_head.weight += 0.3 * model.embed_tokens.weight @ read.T @ say.T
    turn = [torch.linalg.qr(torch.randn(_CODE, _CODE, generator=random))[0] for _ in range(3)]
    _look_back(model.layers[0].self_attn, shape, read, write)
    _induce(model.layers[1].self_attn, shape, read, write, turn, say)


def _look_back(attention: Attention, shape: Shape, read: Tensor, write: list[Tensor]) -> None:
    angles = frequencies(shape)
    kv_a = attention.kv_a_proj_with_mqa.weight
    kv_a[shape.kv_rank :] *= 0.1
    kv_a[shape.kv_rank :: 2, 0] = 2.0
    kv_a[:_CODE] = read
    attention.q_a_proj.weight[0] = 0
    attention.q_a_proj.weight[0, 0] = 2.0
    q_b = attention.q_b_proj.weight.view(shape.heads, shape.nope + shape.rope, shape.q_rank)
    kv_b = attention.kv_b_proj.weight.view(shape.heads, shape.nope + shape.value, shape.kv_rank)
    out = attention.o_proj.weight.view(shape.hidden, shape.heads, shape.value)
    for head, channels in enumerate(write):
        back = angles * -(head + 1)
        q_b[head] *= 0.2
        q_b[head, shape.nope :: 2, 0] = 4.0 * back.cos().float()
        q_b[head, shape.nope + 1 :: 2, 0] = 4.0 * back.sin().float()
        kv_b[head, shape.nope : shape.nope + _CODE] = torch.eye(_CODE, shape.kv_rank)
        out[:, head] *= 0.2
        out[:, head, :_CODE] = 0.6 * channels


def _induce(
    attention: Attention, shape: Shape, read: Tensor, write: list[Tensor], turn: list[Tensor], say: Tensor
) -> None:
    """Key: codes of the tokens before this one. Query: codes of this token and of those before it. Value: the token."""
    kv_a, q_a = attention.kv_a_proj_with_mqa.weight, attention.q_a_proj.weight
    kv_a[shape.kv_rank :] *= 0.2
    q_b = attention.q_b_proj.weight.view(shape.heads, shape.nope + shape.rope, shape.q_rank)
    kv_b = attention.kv_b_proj.weight.view(shape.heads, shape.nope + shape.value, shape.kv_rank)
    out = attention.o_proj.weight.view(shape.hidden, shape.heads, shape.value)
    scale = (1.0, 0.8, 0.7)
    kv_a[:_CODE] = sum(s * t @ w.T for s, t, w in zip(scale, turn, write, strict=True))
    queried = (read * 2.0, write[0].T, write[1].T)
    q_a[:_CODE] = sum(s * t @ r for s, t, r in zip(scale, turn, queried, strict=True))
    kv_a[_CODE : 2 * _CODE] = read
    for head in range(3):
        q_b[head] *= 0.2
        q_b[head, : shape.nope] = 8.0 * torch.eye(shape.nope, shape.q_rank)
        kv_b[head, : shape.nope] = torch.eye(shape.nope, shape.kv_rank)
        kv_b[head, shape.nope : shape.nope + _CODE] = torch.eye(2 * _CODE)[_CODE:, : shape.kv_rank]
        out[:, head] *= 0.2
        out[:, head, :_CODE] = 1.0 * say

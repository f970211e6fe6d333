"""A trained model's inner states + the next token -> its guess at the token after: EAGLE-3's head, one layer.

The arithmetic is that of vLLM's deepseek_eagle3.py at 0.32.0. Embedding and output matrix are the target's own, which
vLLM shares with a head that brings none.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from model import TINY, Attention, FeedForward, Model, Norm, Shape, linear

EAGLE3 = replace(TINY, layers=1)
AUXILIARY = (1, 2, 3)
"""The layers whose inputs the head reads. Never 0: vLLM adds a residual there that does not exist yet."""
_OWN_SHARE = 0.4
"""How often the head reads its own last state in training, as it must from the second guess on."""


class Head(nn.Module):
    def __init__(self, shape: Shape, target: Model) -> None:
        super().__init__()
        self.shape = shape
        self._target = (target.eval().requires_grad_(False),)  # in a tuple: its weights are not the head's
        self.fc = linear(len(AUXILIARY) * shape.hidden, shape.hidden)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm, self.norm = (
            Norm(shape.hidden, shape.epsilon) for _ in range(4)
        )
        self.self_attn = Attention(shape)
        self.self_attn.q_a_proj = linear(2 * shape.hidden, shape.q_rank)
        self.self_attn.kv_a_proj_with_mqa = linear(2 * shape.hidden, shape.kv_rank + shape.rope)
        self.mlp = FeedForward(shape.hidden, shape.dense_width, 1 / math.sqrt(2))

    def forward(self, ids: Tensor, wanted: Tensor) -> Tensor:
        """Logits of the wanted places; the first place has no state before it, and is never wanted."""
        target = self._target[0]
        known, embeds = self.fc(self._states(ids)[:, :-1]), target.embed_tokens(ids[:, 1:])
        with torch.no_grad():
            own = self._layer(embeds, known)
            own = torch.cat((known[:, :1], own[:, :-1]), 1)
        takes_own = torch.rand(own.shape[:2])[..., None] < _OWN_SHARE
        state = self._layer(embeds, torch.where(takes_own, own, known))
        return target.lm_head(self.norm(state[wanted[:, 1:]]))

    def _states(self, ids: Tensor) -> Tensor:
        target, found = self._target[0], []
        with torch.no_grad():
            x = target.embed_tokens(ids)
            for index, layer in enumerate(target.layers):
                if index in AUXILIARY:
                    found.append(x)
                x = layer(x, target.turns[: ids.shape[1]])
        return torch.cat(found, -1)

    def _layer(self, embeds: Tensor, state: Tensor) -> Tensor:
        inputs = torch.cat((self.input_layernorm(embeds), self.hidden_norm(state)), -1)
        state = state + self.self_attn(inputs, self._target[0].turns[: embeds.shape[1]])
        return state + self.mlp(self.post_attention_layernorm(state))

    def routers(self) -> list[nn.Module]:
        return []

    def balance(self) -> None:
        """It has no experts."""

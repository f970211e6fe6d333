"""Prompts of an exact number of tokens, by the server's own count.

A tokenizer of ours would count another model's tokens. The server is asked what single words cost, and prompts are put
together from those: fresh ones share nothing but a word, shared ones begin alike.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from upright.base.errors import EndpointError
from upright.facts.records.benchmark import Shape
from upright.proof.benchmark.load import LoadTarget, Message, Request

Count = Callable[[list[Message]], int]
"""What a server says that a prompt has."""
Tokenize = Callable[[str], int | None]
"""What a server says that a bare text has; None if it cannot say."""
_FIRST = "go"
_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother money"
)
_CANDIDATES = tuple(_TEXT.split())
_FILLERS = ("a", "i", "x", "7", ".", "to", "we")
_REPEATS = 8


@dataclass(frozen=True)
class TokenGauge:
    """What words cost on one server."""

    base_tokens: int
    """A prompt of the first word alone, with everything that the chat template adds."""
    words: tuple[str, ...]
    """Words that all cost the same."""
    cost: int
    """What each of them costs."""
    fillers: tuple[tuple[int, str], ...] = ()
    """(cost, word) for what is left over."""
    question: str = ""
    """What every prompt ends with."""
    question_tokens: int = 0
    """What that adds to a prompt."""

    def text(self, tokens: int, rng: random.Random, shared: str = "", shared_tokens: int = 0) -> tuple[str, int]:
        """A prompt of so many tokens, and how many it really has: the nearest below, if no words fit."""
        left = max(0, tokens - self.base_tokens - shared_tokens - self.question_tokens)
        fillers, used = self._fill(left)
        chosen = rng.choices(self.words, k=(left - used) // self.cost)
        parts = [_FIRST, shared, *chosen, *fillers] if shared else [_FIRST, *chosen, *fillers]
        made = self.base_tokens + shared_tokens + len(chosen) * self.cost + used + self.question_tokens
        return " ".join(parts) + (f"\n{self.question}" if self.question else ""), made

    def words_of(self, tokens: int, rng: random.Random) -> tuple[str, int]:
        """Words alone, to be put into a prompt."""
        count = tokens // self.cost
        return " ".join(rng.choices(self.words, k=count)), count * self.cost

    def _fill(self, left: int) -> tuple[list[str], int]:
        """Words of other costs, so that the rest divides by the usual one."""
        over = left % self.cost
        for cost, word in self.fillers:
            for count in range(1, self.cost):
                if over and count * cost % self.cost == over and count * cost <= left:
                    return [word] * count, count * cost
        return [], 0


def gauge(count: Count, tokenize: Tokenize | None = None, question: str | None = None) -> TokenGauge:
    """Ask the server what words cost: two questions if every word is one token, else one for each.

    A server that tokenizes without answering is asked that way, and believed if its answers count the same.
    """
    base_gauge = _gauge(count, tokenize)
    if question is None:
        return base_gauge
    return replace(
        base_gauge, question=question, question_tokens=count(_user(f"{_FIRST}\n{question}")) - base_gauge.base_tokens
    )


def _gauge(count: Count, tokenize: Tokenize | None) -> TokenGauge:
    base = count(_user(_FIRST))
    together = count(_user(" ".join([_FIRST, *_CANDIDATES])))
    if together == base + len(_CANDIDATES):
        return TokenGauge(base, tuple(_CANDIDATES), 1)
    costs = _costs(tokenize) if tokenize is not None else {}
    if not costs or together != base + sum(costs.get(word, 0) for word in _CANDIDATES):
        costs = _costs(lambda text: count(_user(text)))
    if not costs:
        raise EndpointError("the server counts no word twice alike, so prompts cannot be measured by it")
    usual, _ = min(Counter(costs.values()).most_common(), key=lambda cost_count: (-cost_count[1], cost_count[0]))
    return TokenGauge(
        base,
        tuple(word for word, cost in costs.items() if cost == usual),
        usual,
        tuple(sorted((cost, word) for word, cost in costs.items() if cost != usual)),
    )


def _costs(count: Callable[[str], int | None]) -> dict[str, int]:
    """What each word adds; words that a tokenizer joins with their neighbours are left out."""
    base = count(_FIRST)
    costs: dict[str, int] = {}
    for word in (*_CANDIDATES, *_FILLERS) if base is not None else ():
        extra = (count(" ".join([_FIRST, *[word] * _REPEATS])) or 0) - (base or 0)
        if extra > 0 and extra % _REPEATS == 0:
            costs[word] = extra // _REPEATS
    return costs


def _user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


@dataclass
class _Talk:
    """One conversation so far."""

    messages: list[Message]
    turn: int
    rng: random.Random


class Prompts:
    """A Source: the requests of one cell, each from its own seed, so that a run can be repeated word for word."""

    def __init__(
        self, target: LoadTarget, shape: Shape, gauge: TokenGauge, seed: str, *, requests: int | None = None
    ) -> None:
        self._target, self._shape, self._gauge, self._seed = target, shape, gauge, seed
        self._left = shape.requests if requests is None else requests
        self._number = 0
        # Shared by all cells of a seed, as a system prompt is shared by all requests of a day.
        common = random.Random(f"{seed.split()[0]} shared")  # noqa: S311 (prompts, not secrets)
        self._shared = gauge.words_of(shape.shared_tokens, common) if shape.shared_tokens else ("", 0)
        self._ready: list[Request] = []
        ahead = min(self._left, shape.concurrency + 16)
        while (
            len(self._ready) < ahead
            and sum(len(request.payload) for request in self._ready[:1]) * ahead < 512 * 1024**2
        ):
            self._ready.append(self._make())
        self._ready.reverse()

    def first(self) -> Request | None:
        if self._left <= 0:
            return None
        self._left -= 1
        return self._ready.pop() if self._ready else self._make()

    def following(self, request: Request, answer: str) -> Request | None:
        talk = cast(_Talk | None, request.session)
        if talk is None or talk.turn >= self._shape.turns:
            return None
        turn_text, _ = self._gauge.words_of(max(1, self._shape.turn_tokens), talk.rng)
        talk.messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": turn_text}]
        talk.turn += 1
        tokens = self._shape.output_tokens
        return Request(self._target.request(talk.messages, tokens), None, output_tokens=tokens, session=talk)

    def _make(self) -> Request:
        self._number += 1
        rng = random.Random(f"{self._seed} {self._number}")  # noqa: S311
        text, tokens = self._gauge.text(self._shape.prompt_tokens, rng, *self._shared)
        messages = _user(text)
        payload = self._target.request(messages, self._shape.output_tokens)
        session = _Talk(messages, 1, rng) if self._shape.turns > 1 else None
        return Request(payload, tokens, output_tokens=self._shape.output_tokens, session=session)

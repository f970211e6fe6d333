"""A seed + sentences -> a long text with facts hidden in it; every shorter text is the beginning of the longer ones.

So a server that caches prefixes reads each token of the walk once, and evidence needs no more than the seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from upright.proving.prompts import Needles


@dataclass(frozen=True)
class Fact:
    """One needle."""

    place: int
    """Which sentence it is."""
    key: str
    number: str


@dataclass(frozen=True)
class LongText:
    """The longest text of a walk."""

    sentences: tuple[str, ...]
    facts: tuple[Fact, ...]

    def beginning(self, count: int) -> str:
        return " ".join(self.sentences[:count])

    def fact_at(self, depth: float, count: int, besides: frozenset[str] = frozenset()) -> Fact:
        """The fact nearest to that share of the first `count` sentences, and inside them."""
        inside = [fact for fact in self.facts if fact.place < count and fact.key not in besides]
        return min(inside, key=lambda fact: abs(fact.place - depth * count))


def long_text(needles: Needles, sentences: int, seed: int) -> LongText:
    """The facts are evenly spread, in a random order, the first one at the very beginning.

    Up to nine numbers differ in their first digit: a model that is only small is not led astray halfway through one.
    """
    chance = random.Random(seed)  # noqa: S311 (not a secret)
    lines = [sentence(needles, chance) for _ in range(sentences)]
    keys = chance.sample(needles.keys, len(needles.keys))
    spacing, firsts = max(1, sentences // len(keys)), chance.sample("123456789", 9)
    facts: list[Fact] = []
    for place, key in zip(range(0, sentences, spacing), keys, strict=False):
        digits = "".join(chance.choice("0123456789") for _ in range(needles.digits - 1))
        fact = Fact(place, key, firsts[len(facts) % 9] + digits)
        lines[place] = needles.fact.format(key=fact.key, number=fact.number)
        facts.append(fact)
    return LongText(tuple(lines), tuple(facts))


def sentence(needles: Needles, chance: random.Random) -> str:
    return " ".join(chance.choice(words) for words in needles.filler)


def lengths(needles: Needles, context_tokens: int) -> list[int]:
    """Prompt lengths to walk: the set's own up to the context and the context itself, or the same proportions of it."""
    longest = needles.lengths[-1]
    if context_tokens < needles.lengths[0]:
        return [context_tokens * each // longest for each in needles.lengths]
    return sorted({*(each for each in needles.lengths if each < context_tokens), context_tokens})

"""A seed + sentences -> a long text with facts hidden in it; every shorter text is the beginning of the longer ones.

So a server that caches prefixes reads each token of the walk once, and evidence needs no more than the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from upright.proof.ladder.prompts import Needles

_TRIES = 200
_NEAR = 0.03
"""Of its own place: less than that of any text that holds it."""


@dataclass(frozen=True)
class Needle:
    """One needle."""

    place: int
    """Which sentence it is."""
    key: str
    number: str


@dataclass(frozen=True)
class LongText:
    """The longest text of a walk."""

    sentences: tuple[str, ...]
    facts: tuple[Needle, ...]

    def beginning(self, count: int) -> str:
        return " ".join(self.sentences[:count])

    def fact_at(self, depth: float, count: int) -> Needle:
        """The fact nearest to that share of the first `count` sentences, and inside them."""
        inside = [fact for fact in self.facts if fact.place < count]
        return min(inside, key=lambda fact: abs(fact.place - depth * count))


def long_text(needles: Needles, sentences: int, seed: int, places: Iterable[int] | None = None) -> LongText:
    """Facts at these places, in a random order of their keys; without places at each depth of the whole."""
    if places is None:
        places = hiding_places(needles.depths, [sentences])
    chance = random.Random(seed)  # noqa: S311 (not a secret)
    lines = [sentence(needles, chance) for _ in range(sentences)]
    keys = chance.sample(needles.keys, len(needles.keys))
    firsts, pairs = chance.sample("123456789", 9), set[str]()
    facts: list[Needle] = []
    for place, key in zip(sorted(set(places)), keys, strict=False):
        fact = Needle(place, key, _number(firsts[len(facts) % 9], needles.digits, pairs, chance))
        lines[place] = needles.fact.format(key=fact.key, number=fact.number)
        facts.append(fact)
    return LongText(tuple(lines), tuple(facts))


def hiding_places(depths: Sequence[float], counts: Iterable[int]) -> list[int]:
    """Where texts of so many sentences have a fact at every depth; places that nearly meet are one."""
    places: list[int] = []
    for place in sorted({int(depth * count) for count in counts for depth in depths}):
        if not places or place - places[-1] > _NEAR * place:
            places.append(place)
    return places


def _number(first: str, digits: int, pairs: set[str], chance: random.Random) -> str:
    """No digit twice, and as far as that goes no two neighbours that another number has: a small model copies by what
    stood before, and would go on in the other number. Its weakness is not the engine's."""
    number = ""
    for _ in range(_TRIES):
        number = first + "".join(chance.sample("0123456789".replace(first, ""), digits - 1))
        if pairs.isdisjoint(map("".join, pairwise(number))):
            break
    pairs.update(map("".join, pairwise(number)))
    return number


def sentence(needles: Needles, chance: random.Random) -> str:
    return " ".join(chance.choice(alternatives) for alternatives in needles.filler)


def lengths(needles: Needles, context_tokens: int) -> list[int]:
    """Prompt lengths to walk: the set's own up to the context and the context itself, or the same proportions of it."""
    longest = needles.lengths[-1]
    if context_tokens < needles.lengths[0]:
        return [context_tokens * length // longest for length in needles.lengths]
    return sorted({*(length for length in needles.lengths if length < context_tokens), context_tokens})

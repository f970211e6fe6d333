"""Draws from a distribution such that each round has the right mean.

Pauses and conversations vary by thousands of times; the mean of ten thousand independent draws of an agent's pauses
would be off by a tenth, and so would be the load. A deck is dealt whole before it is shuffled again. What fills queues
(prompts, answers) is drawn independently: there a deck would take away the very crowds that people wait in.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from random import Random

DECK = 2048


class Deck:
    def __init__(self, cards: Sequence[float], random: Random) -> None:
        self.cards = list(cards)
        self.random = random
        self.place = len(self.cards)

    def draw(self) -> float:
        if self.place == len(self.cards):
            self.random.shuffle(self.cards)
            self.place = 0
        self.place += 1
        return self.cards[self.place - 1]

    def whole(self) -> int:
        """Rounded up as often as its fraction says, so that the mean stays."""
        return max(1, int(self.draw() + self.random.random()))

    def met(self, count: int) -> list[float]:
        """As so many are met at a moment that nobody chose: long ones more often, and as often as they should be."""
        weights = list(accumulate(self.cards))
        if not weights[-1]:
            return [0.0] * count
        start, last = self.random.random(), len(self.cards) - 1
        places = (bisect(weights, (number + start) / count * weights[-1]) for number in range(count))
        drawn = [self.cards[min(place, last)] for place in places]
        self.random.shuffle(drawn)
        return drawn


def at_least_one(cards: Sequence[float], mean: float) -> list[float]:
    """None below 1, the mean as before: what the small ones gain the others give."""
    if mean <= 1:
        return [1.0] * len(cards)
    raised = [max(1.0, card) for card in cards]
    for _ in range(60):
        excess = sum(raised) / len(raised) / mean
        if excess <= 1 + 1e-9:
            break
        raised = [max(1.0, card / excess) for card in raised]
    return raised

"""What people do with a box: turns, pauses, how a conversation grows.

A person asks, an agent goes on with tools until it has answered, and the person thinks; each turn adds to the prefix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from random import Random
from statistics import NormalDist


@dataclass(frozen=True)
class Habit:
    """A positive quantity that varies: log-normal, cut at `most`, with this mean; `sigma` 0 is always the mean."""

    mean: float
    """Of what is drawn, the cut counted."""
    sigma: float = 0.0
    most: float = math.inf
    """Never more than this."""

    def draw(self, random: Random) -> float:
        if self.sigma == 0:
            return min(self.mean, self.most)
        return min(math.exp(random.gauss(self._middle, self.sigma)), self.most)

    def whole(self, random: Random) -> int:
        """Rounded up as often as its fraction says, so that the mean stays."""
        return max(1, int(self.draw(random) + random.random()))

    def steps(self, count: int) -> list[float]:
        """Its distribution in so many equally likely steps: the mean of each, so that theirs is the mean."""
        if self.sigma == 0:
            return [min(self.mean, self.most)] * count
        edges = [-math.inf, *(NormalDist().inv_cdf(place / count) for place in range(1, count)), math.inf]
        cut = (math.log(self.most) - self._middle) / self.sigma
        below = [_normal(min(edge, cut) - self.sigma) for edge in edges]
        beyond = [_normal(max(edge, cut)) for edge in edges]
        uncut = math.exp(self._middle + self.sigma**2 / 2)
        most = 0.0 if math.isinf(self.most) else self.most
        return [
            count * (uncut * (below[place + 1] - below[place]) + most * (beyond[place + 1] - beyond[place]))
            for place in range(count)
        ]

    @cached_property
    def _middle(self) -> float:
        """The logarithm of the median before the cut: such that the mean after it is `mean`."""
        uncut = math.log(self.mean) - self.sigma**2 / 2
        if math.isinf(self.most):
            return uncut
        low, high = uncut, math.log(self.most) + 8 * self.sigma
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if cut_mean(middle, self.sigma, self.most) < self.mean else (low, middle)
        return (low + high) / 2


def cut_mean(middle: float, sigma: float, most: float) -> float:
    """The mean of a log-normal whose median has the logarithm `middle`, cut at `most`."""
    above = (math.log(most) - middle) / sigma
    return math.exp(middle + sigma**2 / 2) * _normal(above - sigma) + most * (1 - _normal(above))


@dataclass(frozen=True)
class Usage:
    """The shape of one user's conversations."""

    shared_tokens: int
    """The system prompt and tool schemas, the same for everyone: cached after the first."""
    opening_tokens: Habit
    """What the first turn adds: the task, the files."""
    turn_tokens: Habit
    """What each later turn adds: a tool's result, a question."""
    answer_tokens: Habit
    """What the model writes in a turn."""
    turns: Habit
    """Turns of a conversation."""
    tool_seconds: Habit
    """From an answer to the next turn, where a tool runs in between."""
    thinking_seconds: Habit
    """From an answer to the next turn, where a person reads and thinks."""
    turns_a_request: float
    """Turns that an agent takes for one request of a person; 1 where there is no agent."""
    longest_tokens: int
    """The context that is served; a conversation that would pass it starts anew."""
    answers_stay: bool = True
    """Whether an answer is found in the cache by the next turn: not where a template leaves out what was thought."""

    def pauses(self, count: int) -> list[float]:
        """The pauses of people and of tools, in as many equally likely steps."""
        people = round(count * self._person)
        return (
            [*self.thinking_seconds.steps(people), *self.tool_seconds.steps(count - people)]
            if people
            else [*self.tool_seconds.steps(count)]
        )

    @property
    def mean_pause_seconds(self) -> float:
        return self._person * self.thinking_seconds.mean + (1 - self._person) * self.tool_seconds.mean

    @property
    def _person(self) -> float:
        """The share of pauses in which a person thinks."""
        return 1 / max(1.0, self.turns_a_request)


def _normal(value: float) -> float:
    return 0.5 * (1 + math.erf(value / math.sqrt(2)))

"""What people do with a box: turns, pauses, how a conversation grows.

A person asks, an agent goes on with tools until it has answered, and the person thinks; each turn adds to the prefix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from random import Random


@dataclass(frozen=True)
class Habit:
    """A positive quantity that varies: log-normal with this mean; `sigma` 0 is always the mean."""

    mean: float
    sigma: float = 0.0
    most: float = math.inf
    """Never more than this."""

    def draw(self, random: Random) -> float:
        if self.sigma == 0:
            return min(self.mean, self.most)
        return min(math.exp(random.gauss(self._middle, self.sigma)), self.most)

    def whole(self, random: Random) -> int:
        return max(1, round(self.draw(random)))

    def whole_by_length(self, random: Random) -> int:
        """As one meets it at any moment: long ones are met more often."""
        return max(1, round(Habit(self.mean * math.exp(self.sigma**2), self.sigma, self.most).draw(random)))

    @property
    def typical(self) -> float:
        """The mean of what is drawn, the cut at `most` counted."""
        if self.sigma == 0 or math.isinf(self.most):
            return min(self.mean, self.most)
        above = (math.log(self.most) - self._middle) / self.sigma
        return self.mean * _normal(above - self.sigma) + self.most * (1 - _normal(above))

    @cached_property
    def _middle(self) -> float:
        """The logarithm of the median."""
        return math.log(self.mean) - self.sigma**2 / 2


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

    def pause(self, random: Random) -> float:
        person = self.turns_a_request <= 1 or random.random() * self.turns_a_request < 1
        return (self.thinking_seconds if person else self.tool_seconds).draw(random)

    @property
    def mean_pause_seconds(self) -> float:
        person = 1 / max(1.0, self.turns_a_request)
        return person * self.thinking_seconds.typical + (1 - person) * self.tool_seconds.typical


def _normal(value: float) -> float:
    return 0.5 * (1 + math.erf(value / math.sqrt(2)))

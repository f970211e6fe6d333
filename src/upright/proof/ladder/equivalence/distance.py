"""Distance of a deployment from a reference, with intervals. Pure.

Greedy answers are compared token by token up to the first one that differs: until there both read the same text, and
the distributions of that step can be compared too. What comes after is another text, and is not counted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from upright.facts.records.reference import Continuation, DecodedStep

_LEAST_MASS = 1e-6
"""Log probabilities are rounded: a rest of less than this is not told from none."""
_ROUNDING = 1e-12
"""Of sums that should be zero."""
_LEAST_DIVERGENCE = 1e-6
"""In a ratio: smaller ones are rounding."""
_RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class ComparedPrompt:
    """One prompt on both sides."""

    prompt: str
    divergences: tuple[float, ...]
    """KL of each step that both reached with the same text, in nats; a lower bound (see `divergence`)."""
    differs_at: int | None
    """The first token that was chosen differently; None if the shorter of the two answers agrees to its end."""

    @property
    def steps(self) -> int:
        return len(self.divergences)

    @property
    def divergence(self) -> float:
        """Mean KL a token."""
        return sum(self.divergences) / max(self.steps, 1)


@dataclass(frozen=True)
class Distance:
    """All prompts together."""

    divergence: Interval
    """Mean KL a token."""
    agreement: Interval
    """Share of tokens that both would choose, after the same text."""
    steps: int
    prompts: int
    differing: int
    """Prompts whose answers part somewhere."""


def divergence(reference: DecodedStep, served: DecodedStep) -> float:
    """KL(reference || served) in nats, at least: the smallest that fits what both sides named.

    A token that only the reference names is at most as likely for the other side as the last one that it names; all
    that neither names count as one outcome. Merging outcomes can only lower a KL divergence.
    """
    ours, theirs = _merged(reference), _merged(served)
    shared = ours.keys() & theirs.keys()
    known = sum(ours[token] * math.log(ours[token] / max(theirs[token], 1e-300)) for token in shared if ours[token] > 0)
    missing = sorted((ours[token] for token in ours.keys() - shared), reverse=True)
    others = max(1.0 - sum(ours.values()), _LEAST_MASS)
    left = max(1.0 - sum(theirs[token] for token in shared), _LEAST_MASS)
    nats = known + _least_rest(missing, others, left, min(theirs.values()))
    return nats if nats > _ROUNDING else 0.0


def _least_rest(missing: Sequence[float], others: float, left: float, most: float) -> float:
    """What the tokens without a pair add at least, if the other side has `left` for them and at most `most` each."""
    total, mass = 0.0, sum(missing) + others
    for p in missing:
        if p * left / mass <= most or left - most < _LEAST_MASS:
            break  # from here on the other side may give each its share
        total += p * math.log(p / max(most, 1e-300)) if p > 0 else 0.0
        left, mass = left - most, mass - p
    return total + mass * math.log(mass / left)


def compare_prompt(reference: Continuation, served: Continuation) -> ComparedPrompt:
    divergences = []
    for place, (ours, theirs) in enumerate(zip(reference.steps, served.steps, strict=False)):
        divergences.append(divergence(ours, theirs))
        if ours[0][0] != theirs[0][0]:
            return ComparedPrompt(reference.prompt, tuple(divergences), place)
    return ComparedPrompt(reference.prompt, tuple(divergences), None)


def distance(prompts: Sequence[ComparedPrompt]) -> Distance:
    """At least one step must have been compared."""
    steps = sum(prompt.steps for prompt in prompts)
    differing = sum(prompt.differs_at is not None for prompt in prompts)
    return Distance(
        divergence=mean_divergence(prompts),
        agreement=share(steps - differing, steps),
        steps=steps,
        prompts=len(prompts),
        differing=differing,
    )


def mean_divergence(prompts: Sequence[ComparedPrompt]) -> Interval:
    """Mean KL a token. Tokens of one answer are not independent, so whole prompts are drawn again (bootstrap)."""
    sums = [(sum(prompt.divergences), prompt.steps) for prompt in prompts if prompt.steps]
    return _bootstrapped(sums)


def distance_ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """How many times as far the second is as the first, prompt by prompt: the geometric mean of the ratios of their KL
    divergences. Prompts differ by orders of magnitude, and both answered the same ones."""
    logs = [
        (math.log(max(theirs, _LEAST_DIVERGENCE) / max(ours, _LEAST_DIVERGENCE)), 1)
        for ours, theirs in zip(first, second, strict=True)
    ]
    interval = _bootstrapped(logs)
    return Interval(math.exp(interval.estimate), math.exp(interval.low), math.exp(interval.high))


def sign_test(lost: int, gained: int) -> float:
    """How likely at least so many of the changes would be losses if a change were as likely to be a gain."""
    return _at_least(lost, lost + gained, 0.5) if lost + gained else 1.0


def share(successes: int, trials: int) -> Interval:
    """A proportion with the exact interval of Clopper and Pearson."""
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if successes == 0 else _solved(lambda p: _at_least(successes, trials, p) < tail)
    high = 1.0 if successes == trials else _solved(lambda p: 1 - _at_least(successes + 1, trials, p) > tail)
    return Interval(successes / trials, low, high)


def _bootstrapped(sums: Sequence[tuple[float, int]]) -> Interval:
    """The ratio of two sums, members drawn again with replacement; seeded, so that the same evidence says the same."""
    estimate = _ratio(sums)
    chance = random.Random(len(sums))  # noqa: S311 (not a secret)
    drawn = sorted(_ratio(chance.choices(sums, k=len(sums))) for _ in range(_RESAMPLES))
    cut = round((1 - CONFIDENCE) / 2 * _RESAMPLES)
    return Interval(estimate, drawn[cut], drawn[-cut - 1])


def _ratio(sums: Iterable[tuple[float, int]]) -> float:
    pairs = list(sums)
    return sum(amount for amount, _ in pairs) / sum(count for _, count in pairs)


def _merged(step: DecodedStep) -> dict[str, float]:
    """Probabilities by token; the chosen one stands first and may be named again among the most likely."""
    by_token: dict[str, float] = {}
    for token, log_probability in step:
        by_token.setdefault(token, math.exp(min(log_probability, 0.0)))
    return by_token


def _at_least(successes: int, trials: int, p: float) -> float:
    """P(X >= successes) of a binomial."""
    if p <= 0 or p >= 1:
        return float(p >= 1)
    logs = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(p) + (trials - k) * math.log1p(-p)
        for k in range(successes, trials + 1)
    )  # fmt: skip
    return min(sum(map(math.exp, logs)), 1.0)


def _solved(is_below: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2

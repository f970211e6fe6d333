"""Synthetic AgentTraces from published statistics of coding agents."""

from __future__ import annotations

import math
import random
from functools import cache
from importlib.resources import files

from upright.base.errors import UsageError
from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part
from upright.facts.records.trace import AgentTrace, TraceSession, TraceTurn

_P90 = 1.2816
"""The 90th percentile of a normal distribution, in standard deviations."""
_START_SHARE = 0.25
"""Of the context: what a first prompt takes at most."""
_COMPACT_SHARE = 0.8
"""Of the context: a session that would grow beyond it is compacted."""
_OUTPUT_SHARE = 1 / 16
"""Of the context: what one answer, or what one turn adds, takes at most."""
_BEGIN_SECONDS = 5.0
"""Agents begin one after another."""
LEAST_CONTEXT = 512


class AgentStatistics(Part):
    """What was published of coding agents; a spread is a median and a 90th percentile."""

    source: str
    """Who counted."""
    person_share: float
    """Of all turns, those that a person began; the others follow a tool's result."""
    tool_growth_tokens: tuple[float, float]
    """What a tool's result adds."""
    person_growth_tokens: tuple[float, float]
    """What a person's message adds."""
    output_tokens: tuple[float, float]
    """An answer, thoughts included."""
    tool_wait_seconds: tuple[float, float]
    """A tool's run."""
    person_wait_seconds: tuple[float, float]
    """Until a person writes again."""
    most_wait_seconds: float
    """Longer waits are cut to this."""
    first_prompt_tokens: int
    """System prompt, tools and the first message."""
    shared_share: float
    """Of the first prompt, what all sessions share."""


@cache
def statistics() -> AgentStatistics:
    text = files("upright.proof.benchmark").joinpath("agent_statistics.yaml").read_text(encoding="utf-8")
    return AgentStatistics.model_validate(from_yaml(text))


def generate_trace(sessions: int, turns: int, context_tokens: int, seed: int) -> AgentTrace:
    """So many agents with so many turns each, none longer than the context."""
    if context_tokens < LEAST_CONTEXT:
        raise UsageError(
            f"a context of {context_tokens} tokens is too small for an agent", hint=f"at least {LEAST_CONTEXT}"
        )
    published = statistics()
    made = tuple(_session(published, turns, context_tokens, f"{seed} {number}", number) for number in range(sessions))
    return AgentTrace(title=f"{sessions} generated agents", source=published.source, sessions=made)


def _session(published: AgentStatistics, turns: int, context: int, seed: str, number: int) -> TraceSession:
    chance = random.Random(seed)  # noqa: S311 (not a secret)
    first = min(published.first_prompt_tokens, int(_START_SHARE * context))
    shared, most = int(published.shared_share * first), max(1, int(_OUTPUT_SHARE * context))
    held, made = 0, list[TraceTurn]()
    for place in range(turns):
        person = place > 0 and chance.random() < published.person_share
        growth = published.person_growth_tokens if person else published.tool_growth_tokens
        new = first if place == 0 else _drawn(chance, growth, most)
        output = _drawn(chance, published.output_tokens, most)
        wait = _wait(chance, published, person) if place else 0.0
        kept = None
        if place and held + new + output > _COMPACT_SHARE * context:
            kept, held = shared, shared
        made.append(TraceTurn(wait_seconds=round(wait, 3), kept_tokens=kept, new_tokens=new, output_tokens=output))
        held += new + output
    return TraceSession(begins_seconds=_BEGIN_SECONDS * number, shared_tokens=shared, turns=tuple(made))


def _wait(chance: random.Random, published: AgentStatistics, person: bool) -> float:
    spread = published.person_wait_seconds if person else published.tool_wait_seconds
    return min(_log_normal(chance, spread), published.most_wait_seconds)


def _drawn(chance: random.Random, spread: tuple[float, float], most: int) -> int:
    return max(1, min(most, round(_log_normal(chance, spread))))


def _log_normal(chance: random.Random, spread: tuple[float, float]) -> float:
    median, p90 = spread
    return chance.lognormvariate(math.log(median), math.log(p90 / median) / _P90)

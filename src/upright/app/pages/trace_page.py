"""An AgentTrace -> what a person reads."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from upright.base.terminal.wrapping import print_wrapped
from upright.base.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.trace import AgentTrace


def trace_page(console: Console, trace: AgentTrace) -> None:
    turns = [turn for session in trace.sessions for turn in session.turns]
    later = [turn for session in trace.sessions for turn in session.turns[1:]]
    forks = len(trace.sessions) - trace.agents
    print_wrapped(
        console,
        f"{trace.title}: {_count(trace.agents, 'agent')}, {_count(forks, 'fork')}, {_count(len(turns), 'turn')}",
    )
    first = median(session.turns[0].new_tokens for session in trace.sessions if session.forked_from is None)
    print_wrapped(
        console, f"first prompt {first:,.0f} tokens, answers {median(t.output_tokens for t in turns):,.0f} (medians)", 2
    )
    if later:
        added, waits = median(turn.new_tokens for turn in later), median(turn.wait_seconds for turn in later)
        print_wrapped(
            console, f"each later turn adds {added:,.0f} tokens after a wait of {format_duration(waits)} (medians)", 2
        )
    compactions = sum(turn.kept_tokens is not None for turn in later)
    print_wrapped(console, f"{_count(compactions, 'compaction')}; no text is in it", 2)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

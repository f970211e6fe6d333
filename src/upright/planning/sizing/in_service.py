"""Service + users of a box -> which share of them is being answered at any moment, by the interactive law.

An estimate: it is where a simulation begins, so that it need not find it in hours of simulated time.
"""

from __future__ import annotations

from typing import NamedTuple

from upright.planning.sizing.service import Service
from upright.planning.sizing.usage import Usage


class Answering(NamedTuple):
    share: float
    """Of users."""
    seconds: float
    """From being asked to the last token."""


def answering_of(service: Service, usage: Usage, users: float, held_tokens: float) -> Answering:
    """`users` of one box, whose conversations hold so many tokens on average."""
    pause = usage.mean_pause_seconds

    def seconds(streams: float) -> float:
        step = service.decode_seconds(round(streams)) + service.cached_token_seconds * streams * held_tokens
        prompt = service.read_seconds(int(held_tokens), int(held_tokens + usage.turn_tokens.mean))
        # Each answer is kept waiting by the prompts that are read meanwhile.
        return usage.answer_tokens.mean * step + prompt * max(1.0, streams)

    low, high = 0.0, float(service.streams)
    for _ in range(40):
        streams = (low + high) / 2
        wanted = users * seconds(streams) / (pause + seconds(streams))
        low, high = (streams, high) if wanted > streams else (low, streams)
    answer = seconds(high)
    if high >= service.streams * 0.999:  # full: whoever asks waits for a stream
        answer = max(answer, users * answer / service.streams - pause)
    return Answering(answer / (pause + answer), answer)

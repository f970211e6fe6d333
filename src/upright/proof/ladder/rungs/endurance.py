"""One long generation: is it sane to its end, and does it keep its speed?"""

from __future__ import annotations

from upright.facts.records.evidence import Observation
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.observing import Judgement, SentQuestion, Slot, observation_of, observe_answer
from upright.proof.ladder.prompts import Endurance
from upright.proof.ladder.rules import judge as rule
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.endpoint.client import Answer

NAME = "endurance"
_SLOWEST_SHARE = 0.25
"""Of the first quarter's speed: below it the last quarter is no longer the same server."""
_LEAST_SECONDS = 30
"""A last quarter shorter than this is too short to judge a speed by."""


def _probes(stand: ProofContext) -> list[Probe]:
    endurance = stand.prompts.endurance
    if endurance is None:
        why = "the prompt set has no long generation"
        return [
            Probe(
                "long answer",
                "none",
                lambda stand: observation_of(stand, Slot(NAME, "long answer", "none"), "skipped", why),
            )
        ]
    tokens = _tokens(endurance, stand.target.context_tokens)
    cost = ProbeCost(prompt_tokens=150, answer_tokens=tokens)
    return [Probe("long answer", f"{tokens} tokens", lambda stand: _ask(stand, endurance, tokens), cost)]


def _tokens(endurance: Endurance, context_tokens: int | None) -> int:
    return endurance.tokens if context_tokens is None else min(endurance.tokens, context_tokens // 2)


def _ask(stand: ProofContext, endurance: Endurance, tokens: int) -> Observation:
    slot = Slot(NAME, "long answer", f"{tokens} tokens")
    asked = SentQuestion([{"role": "user", "content": endurance.ask}], max_tokens=tokens, stream=True)
    seen, answer = observe_answer(stand, slot, asked, lambda answer: _judged(answer, endurance, tokens))
    if answer is None:
        return seen
    return seen.model_copy(update={"measured": {**seen.measured, **_quarters(answer)}})


def _judged(answer: Answer, endurance: Endurance, tokens: int) -> Judgement:
    written, cut = answer.completion_tokens or 0, answer.finish_reason == "length"
    expect = {**endurance.expect, "cut": True} if cut and isinstance(endurance.expect, dict) else endurance.expect
    if wrong := rule(endurance.rule, answer.text, expect):
        return "wrong", f"after {written:,} tokens: {wrong}"
    if written < endurance.least_share * tokens:
        return "skipped", f"the model ended by itself after {written:,} of {tokens:,} tokens"
    rates = _quarters(answer)
    first, last = rates.get("first_quarter_tokens_per_second"), rates.get("last_quarter_tokens_per_second")
    if first is None or last is None:
        return "passed", f"{written:,} tokens, sane to the end"
    if last < _SLOWEST_SHARE * first and rates["last_quarter_seconds"] >= _LEAST_SECONDS:
        return "failed", f"{written:,} tokens: from {first:.1f} down to {last:.1f} tok/s"
    return "passed", f"{written:,} tokens, sane to the end; {first:.1f} tok/s at first, {last:.1f} at last (measured)"


def _quarters(answer: Answer) -> dict[str, float]:
    """Speed over the first and the last quarter of the pieces, as they came."""
    pieces, written = answer.pieces_seconds, answer.completion_tokens or 0
    if len(pieces) < 8 or not written:
        return {}
    quarter, tokens_per_piece = len(pieces) // 4, written / len(pieces)
    first, last = pieces[quarter] - pieces[0], pieces[-1] - pieces[-1 - quarter]
    if first <= 0 or last <= 0:
        return {}
    return {
        "first_quarter_tokens_per_second": round(quarter * tokens_per_piece / first, 3),
        "last_quarter_tokens_per_second": round(quarter * tokens_per_piece / last, 3),
        "last_quarter_seconds": round(last, 3),
    }


RUNG = LadderRung(NAME, "one long generation, sane to its end, at a steady speed", _probes)

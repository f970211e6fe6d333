"""Messages, as Anthropic's clients ask for them."""

from __future__ import annotations

from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.proof.ladder.conformance.check import (  # fmt: skip
    CITY,
    QUESTION,
    TOKENS,
    Check,
    count_of,
    judge_stream,
    judgement_of,
    missing_counts,
    oversized_text,
    wrong_fields,
)
from upright.proof.ladder.conformance.openai import refusal_faults
from upright.proof.ladder.observing import Judgement
from upright.proof.ladder.rung import ProofContext
from upright.serving.connect.streams import anthropic_blocks, anthropic_error, anthropic_faults, anthropic_overlaps
from upright.serving.endpoint.client import Endpoint

MESSAGES = "/v1/messages"
_TOOL = {"name": "get_weather", "input_schema": CITY}
_STOPS = ("end_turn", "max_tokens", "stop_sequence", "tool_use")
_THOUGHT_TOKENS = 1_024
"""The least that the protocol lets a client ask for."""


def _messages(stand: ProofContext) -> Judgement:
    answer = stand.endpoint.post(MESSAGES, message_body(stand.endpoint))
    wrong = wrong_fields(answer, {"type": "message", "role": "assistant"})
    if not isinstance(answer.get("content"), list):
        wrong.append("content is no list of blocks")
    if answer.get("stop_reason") not in _STOPS:
        wrong.append(f"stop_reason is {answer.get('stop_reason')!r}")
    return judgement_of(
        [*wrong, *missing_counts(answer.get("usage"), ("input_tokens", "output_tokens"))], "a whole message"
    )


def _messages_stream(stand: ProofContext) -> Judgement:
    return judge_stream(stand.endpoint, MESSAGES, {**message_body(stand.endpoint), "stream": True}, anthropic_faults)


def _messages_blocks(stand: ProofContext) -> Judgement:
    return judge_stream(stand.endpoint, MESSAGES, {**message_body(stand.endpoint), "stream": True}, anthropic_overlaps)


def _messages_tools(stand: ProofContext) -> Judgement:
    asked = {**message_body(stand.endpoint), "tools": [_TOOL], "stream": True}
    return judge_stream(stand.endpoint, MESSAGES, asked, anthropic_faults)


def _thinking(stand: ProofContext) -> Judgement:
    """Thoughts in blocks of their own, before the answer's. A model that does not think shows none."""
    thinking = {"type": "enabled", "budget_tokens": _THOUGHT_TOKENS}
    room = {"max_tokens": _THOUGHT_TOKENS + TOKENS, "thinking": thinking, "temperature": 1}
    lines = stand.endpoint.raw_lines(MESSAGES, {**message_body(stand.endpoint), **room, "stream": True})
    faults, kinds = anthropic_faults(lines), anthropic_blocks(lines)
    if (error_text := anthropic_error(lines)) is not None:
        return "unsupported", error_text
    if faults:
        return judgement_of(faults, "")
    if "thinking" not in kinds:
        return "unsupported", f"no thought came: {', '.join(kinds) or 'no block'}"
    wrong = [] if kinds[0] == "thinking" else [f"the blocks are {', '.join(kinds)}"]
    return judgement_of(wrong, f"{', '.join(kinds)}: {count_of(lines)} events")


def _tool_result(stand: ProofContext) -> Judgement:
    """A conversation that holds a tool's use and its result, as an agent's second request does."""
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    tool_result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "18 degrees"}]}
    messages = [*QUESTION, {"role": "assistant", "content": [use]}, {"role": "user", "content": [tool_result]}]
    return _taken(stand, {"messages": messages, "tools": [_TOOL]}, "the result was taken")


def _system_blocks(stand: ProofContext) -> Judgement:
    system = [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]
    return _taken(stand, {"system": system}, "blocks with cache_control taken")


def _taken(stand: ProofContext, more: dict[str, Any], right: str) -> Judgement:
    answer = stand.endpoint.post(MESSAGES, {**message_body(stand.endpoint), **more})
    return judgement_of([] if answer.get("type") == "message" else ["no message came"], right)


def _count_tokens(stand: ProofContext) -> Judgement:
    asked = {"model": stand.endpoint.model, "messages": QUESTION}
    counted = stand.endpoint.post(f"{MESSAGES}/count_tokens", asked).get("input_tokens")
    usage = stand.endpoint.post(MESSAGES, message_body(stand.endpoint)).get("usage") or {}
    if type(counted) is not int or counted < 1:
        return "failed", f"count_tokens says {counted!r}"
    return "passed", f"{counted} tokens counted; the answer's usage says {usage.get('input_tokens')} beside the cached"


def _messages_errors(stand: ProofContext) -> Judgement:
    """A prompt that is too long: {"type": "error", "error": {"type": ..., "message": ...}}, which the SDKs read."""
    long = oversized_text(stand)
    if not isinstance(long, str):
        return long
    asked = {**message_body(stand.endpoint), "messages": [{"role": "user", "content": long}]}
    status, text = stand.endpoint.exchange(MESSAGES, asked)
    if status in (404, 405):
        return "unsupported", f"HTTP {status}"
    wrong = refusal_faults(status, text)
    if not wrong and parse_json(text).get("type") != "error":
        wrong.append("it is not of the type `error`")
    return judgement_of(wrong, f"HTTP {status}, with words")


def message_body(endpoint: Endpoint) -> dict[str, Any]:
    return {"model": endpoint.model, "messages": QUESTION, "max_tokens": TOKENS, "temperature": 0}


CHECKS: dict[str, Check] = {
    "messages": _messages,
    "messages stream": _messages_stream,
    "messages blocks": _messages_blocks,
    "messages tools": _messages_tools,
    "thinking": _thinking,
    "tool result": _tool_result,
    "system blocks": _system_blocks,
    "count tokens": _count_tokens,
    "messages errors": _messages_errors,
}

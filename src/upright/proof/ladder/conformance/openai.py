"""Chat completions and responses, as OpenAI's clients ask for them."""

from __future__ import annotations

from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import EndpointError
from upright.proof.ladder.conformance.check import (
    CITY,
    QUESTION,
    TOKENS,
    Check,
    judge_stream,
    judgement_of,
    missing_counts,
    oversized_text,
    wrong_fields,
)
from upright.proof.ladder.observing import Judgement
from upright.proof.ladder.rung import ProofContext
from upright.serving.connect.responses_stream import responses_faults
from upright.serving.connect.streams import openai_faults
from upright.serving.endpoint.client import Endpoint

CHAT = "/v1/chat/completions"
_RESPONSES = "/v1/responses"


def _models(stand: ProofContext) -> Judgement:
    cards = stand.endpoint.model_cards()
    models = [card for card in cards if card.get("object") == "model"]
    if models and stand.endpoint.names_what_is_loaded:
        return (
            "passed",
            f"{len(cards)} models that it could load; {stand.endpoint.model} is its name for what it loaded",
        )
    if not any(card.get("id") == stand.endpoint.model for card in models):
        return "failed", f"/v1/models has no card of {stand.endpoint.model}"
    return "passed", f"{len(cards)} models, {stand.endpoint.model} among them"


def _chat(stand: ProofContext) -> Judgement:
    answer = stand.endpoint.chat(QUESTION, max_tokens=TOKENS, temperature=0).response
    wrong = wrong_fields(answer, {"object": "chat.completion"})
    wrong += [] if isinstance(answer.get("id"), str) else ["it has no id"]
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    wrong += wrong_fields(choice.get("message") or {}, {"role": "assistant"})
    if choice.get("finish_reason") not in ("stop", "length", "tool_calls"):
        wrong.append(f"finish_reason is {choice.get('finish_reason')!r}")
    return judgement_of(
        [*wrong, *missing_counts(answer.get("usage"), ("prompt_tokens", "completion_tokens"))], "a whole answer"
    )


def _chat_stream(stand: ProofContext) -> Judgement:
    return judge_stream(stand.endpoint, CHAT, chat_body(stand.endpoint), openai_faults)


def _chat_tools(stand: ProofContext) -> Judgement:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
    return judge_stream(stand.endpoint, CHAT, {**chat_body(stand.endpoint), "tools": [tool]}, openai_faults)


def _chat_tool_result(stand: ProofContext) -> Judgement:
    """A conversation that holds a call and its result, as an agent's second request does."""
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "functions.get_weather:0", "type": "function", "function": function}
    messages: list[dict[str, Any]] = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "18 degrees"},
    ]
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
    answer = stand.endpoint.chat(messages, tools=[tool], max_tokens=TOKENS, temperature=0)
    return judgement_of([] if answer.finish_reason else ["no answer came"], "the result was taken")


def _stop_reasons(stand: ProofContext) -> Judgement:
    one = stand.endpoint.chat(QUESTION, max_tokens=1)
    wrong = [] if one.finish_reason == "length" else [f"one token of an answer finishes with {one.finish_reason!r}"]
    return judgement_of(wrong, "an answer that was cut says so")


def _chat_errors(stand: ProofContext) -> Judgement:
    """A request that cannot be answered: refused as such, in JSON, with words."""
    status, text = stand.endpoint.exchange(CHAT, {"model": stand.endpoint.model, "messages": "not a list"})
    return judgement_of(refusal_faults(status, text), f"HTTP {status}, with words")


def _long_prompt(stand: ProofContext) -> Judgement:
    """More than the context: refused with a reason, neither cut in silence nor a server's failure."""
    long = oversized_text(stand)
    if not isinstance(long, str):
        return long
    messages = [{"role": "user", "content": long}]
    status, text = stand.endpoint.exchange(CHAT, {"model": stand.endpoint.model, "messages": messages, "max_tokens": 8})
    if status == 200:
        return "failed", "a prompt of four times the context was answered: it was cut in silence"
    return judgement_of(refusal_faults(status, text), f"HTTP {status}: {text[:120]}")


def _responses(stand: ProofContext) -> Judgement:
    answer = stand.endpoint.post(_RESPONSES, _response_body(stand.endpoint))
    wrong = wrong_fields(answer, {"object": "response"})
    if answer.get("status") not in ("completed", "incomplete"):
        wrong.append(f"status is {answer.get('status')!r}")
    items = answer.get("output")
    kinds = [output_item.get("type") for output_item in items] if isinstance(items, list) else []
    wrong += [] if kinds else ["output is no list of items"]
    return judgement_of(
        [*wrong, *missing_counts(answer.get("usage"), ("input_tokens", "output_tokens"))],
        f"a whole response: {', '.join(map(str, kinds))}",
    )


def _responses_stream(stand: ProofContext) -> Judgement:
    asked = {**_response_body(stand.endpoint), "stream": True}
    return judge_stream(stand.endpoint, _RESPONSES, asked, responses_faults)


def _responses_tools(stand: ProofContext) -> Judgement:
    tool = {"type": "function", "name": "get_weather", "parameters": CITY}
    asked = {**_response_body(stand.endpoint), "stream": True, "tools": [tool]}
    return judge_stream(stand.endpoint, _RESPONSES, asked, responses_faults)


def refusal_faults(status: int, text: str) -> list[str]:
    """As both makers write their errors: a 4xx, and {"error": {"message": ...}}."""
    wrong = [] if status in (400, 413, 422) else [f"HTTP {status}"]
    try:
        payload: Any = parse_json(text)
    except ValueError:
        return [*wrong, f"no JSON: {text[:60]!r}"]
    error = payload.get("error") if isinstance(payload, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return wrong if isinstance(message, str) and message else [*wrong, f"no error.message: {text[:60]}"]


def chat_body(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "model": endpoint.model,
        "messages": QUESTION,
        "max_tokens": TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _response_body(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "model": endpoint.model,
        "input": QUESTION[0]["content"],
        "max_output_tokens": TOKENS,
        "temperature": 0,
    }


def missing(error: EndpointError) -> bool:
    """An address that the server does not have, or something that it was not started for."""
    return error.status in (404, 405, 501) or "--tool-call-parser" in error.message


CHECKS: dict[str, Check] = {
    "models": _models,
    "chat": _chat,
    "chat stream": _chat_stream,
    "chat tools": _chat_tools,
    "chat tool result": _chat_tool_result,
    "stop reasons": _stop_reasons,
    "chat errors": _chat_errors,
    "long prompt": _long_prompt,
    "responses": _responses,
    "responses stream": _responses_stream,
    "responses tools": _responses_tools,
}

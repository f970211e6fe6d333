"""Does the endpoint keep the protocols that clients rely on: chat completions, messages, counting, refusals?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upright.connecting.streams import anthropic_faults, openai_faults
from upright.errors import EndpointError
from upright.proving.asking import Judgement, Slot, note
from upright.proving.estimating import Cost
from upright.proving.rung import Probe, Rung, Stand
from upright.records.evidence import Observation

NAME = "clients"
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
_TOKENS = 48
_MISSING = ("HTTP 404", "HTTP 405", "HTTP 501")
_UNREADY = "--tool-call-parser"
Ask = Callable[[Stand], Judgement]


def _probes(stand: Stand) -> list[Probe]:
    cost = Cost(prompt_tokens=64, answer_tokens=_TOKENS)
    return [Probe(name, name, _asking(name, ask), cost) for name, ask in _CHECKS.items()]


def _asking(name: str, ask: Ask) -> Callable[[Stand], Observation]:
    def asked(stand: Stand) -> Observation:
        slot = Slot(NAME, name, name)
        try:
            verdict, reason = ask(stand)
        except EndpointError as error:
            missing = any(words in error.message for words in _MISSING)
            unready = _UNREADY in error.message
            return note(stand, slot, "unsupported" if missing or unready else "failed", error.message)
        return note(stand, slot, verdict, reason)

    return asked


def _models(stand: Stand) -> Judgement:
    cards = stand.endpoint.model_cards()
    if not any(card.get("id") == stand.endpoint.model and card.get("object") == "model" for card in cards):
        return "failed", f"/v1/models has no card of {stand.endpoint.model}"
    return "passed", f"{len(cards)} models, {stand.endpoint.model} among them"


def _chat_stream(stand: Stand) -> Judgement:
    return _streamed(stand, "/v1/chat/completions", _chat(stand), openai_faults)


def _chat_tools(stand: Stand) -> Judgement:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": _CITY}}
    return _streamed(stand, "/v1/chat/completions", {**_chat(stand), "tools": [tool]}, openai_faults)


def _messages(stand: Stand) -> Judgement:
    answer = stand.endpoint.post("/v1/messages", _message(stand))
    wanted = {"type": "message", "role": "assistant"}
    wrong = [f"{name} is {answer.get(name)!r}" for name, value in wanted.items() if answer.get(name) != value]
    if not isinstance(answer.get("content"), list):
        wrong.append("content is no list of blocks")
    if answer.get("stop_reason") not in ("end_turn", "max_tokens", "stop_sequence", "tool_use"):
        wrong.append(f"stop_reason is {answer.get('stop_reason')!r}")
    usage = answer.get("usage") or {}
    wrong += [f"usage has no {name}" for name in ("input_tokens", "output_tokens") if type(usage.get(name)) is not int]
    return _verdict(wrong, "a whole message")


def _messages_stream(stand: Stand) -> Judgement:
    return _streamed(stand, "/v1/messages", {**_message(stand), "stream": True}, anthropic_faults)


def _messages_tools(stand: Stand) -> Judgement:
    tool = {"name": "get_weather", "input_schema": _CITY}
    asked = {**_message(stand), "tools": [tool], "stream": True}
    return _streamed(stand, "/v1/messages", asked, anthropic_faults)


def _tool_result(stand: Stand) -> Judgement:
    """A conversation that holds a tool's use and its result, as an agent's second request does."""
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "18 degrees"}]}
    said = [*_QUESTION, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    tool = {"name": "get_weather", "input_schema": _CITY}
    answer = stand.endpoint.post("/v1/messages", {**_message(stand), "messages": said, "tools": [tool]})
    return _verdict([] if answer.get("type") == "message" else ["no message came"], "the result was taken")


def _system_blocks(stand: Stand) -> Judgement:
    system = [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]
    answer = stand.endpoint.post("/v1/messages", {**_message(stand), "system": system})
    return _verdict([] if answer.get("type") == "message" else ["no message came"], "blocks with cache_control taken")


def _count_tokens(stand: Stand) -> Judgement:
    asked = {"model": stand.endpoint.model, "messages": _QUESTION}
    counted = stand.endpoint.post("/v1/messages/count_tokens", asked).get("input_tokens")
    used = (stand.endpoint.post("/v1/messages", _message(stand)).get("usage") or {}).get("input_tokens")
    if type(counted) is not int or counted < 1:
        return "failed", f"count_tokens says {counted!r}"
    return "passed", f"{counted} tokens counted; the answer's usage says {used} beside what was cached"


def _stop_reasons(stand: Stand) -> Judgement:
    one = stand.endpoint.chat(_QUESTION, max_tokens=1)
    wrong = [] if one.finish_reason == "length" else [f"one token of an answer finishes with {one.finish_reason!r}"]
    return _verdict(wrong, "an answer that was cut says so")


def _long_prompt(stand: Stand) -> Judgement:
    """More than the context: refused with a reason, neither cut in silence nor a server's failure."""
    room = stand.target.context_tokens
    if room is None:
        return "unsupported", "the context is not known"
    long = [{"role": "user", "content": "one two three four " * room}]
    try:
        stand.endpoint.chat(long, max_tokens=8)
    except EndpointError as error:
        clean = any(f"HTTP {code}" in error.message for code in (400, 413, 422))
        return ("passed" if clean else "failed"), error.message[:160]
    return "failed", "a prompt of four times the context was answered: it was cut in silence"


def _streamed(stand: Stand, path: str, body: dict[str, Any], judge: Callable[[list[str]], list[str]]) -> Judgement:
    lines = stand.endpoint.raw_lines(path, body)
    return _verdict(judge(lines), f"{sum(line.startswith('data:') for line in lines)} events in order")


def _verdict(wrong: list[str], right: str) -> Judgement:
    return ("failed", "; ".join(dict.fromkeys(wrong))) if wrong else ("passed", right)


def _chat(stand: Stand) -> dict[str, Any]:
    return {
        "model": stand.endpoint.model,
        "messages": _QUESTION,
        "max_tokens": _TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _message(stand: Stand) -> dict[str, Any]:
    return {"model": stand.endpoint.model, "messages": _QUESTION, "max_tokens": _TOKENS, "temperature": 0}


_CHECKS: dict[str, Ask] = {
    "models": _models,
    "chat stream": _chat_stream,
    "chat tools": _chat_tools,
    "stop reasons": _stop_reasons,
    "long prompt": _long_prompt,
    "messages": _messages,
    "messages stream": _messages_stream,
    "messages tools": _messages_tools,
    "tool result": _tool_result,
    "system blocks": _system_blocks,
    "count tokens": _count_tokens,
}

RUNG = Rung(NAME, "the protocols that clients rely on, by raw streams", _probes)

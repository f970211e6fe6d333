"""Asks one question and judges its answer: one observation, whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from upright.base.errors import EndpointError
from upright.base.progress import utc_now
from upright.facts.records.evidence import NOT_RUN, Observation, Verdict
from upright.proof.ladder.prompts import Mode
from upright.proof.ladder.rung import ProofContext
from upright.proof.ladder.sandbox import NotIsolatedError
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards import Complaint, complaints

Judgement = tuple[Verdict, str]
Judge = Callable[[Answer], Judgement]

CONTROL = frozenset({("smoke", "language"), ("smoke", "arithmetic")})
"""Short questions of no form, which tell whether the model is able at all."""
LONG_CHARACTERS = 4_000
"""A message longer than this is kept by its digest; the probe's name and the set make it again."""
_LEAST_TIMEOUT_SECONDS = 120.0
_UNKNOWN_RATE_TIMEOUT_SECONDS = 3_600.0
_WITNESS_TOKENS = 200
"""Fewer tokens than this say little about the speed of reading."""
_REFUSED = (400, 404, 405, 415, 422, 501)


@dataclass(frozen=True)
class Slot:
    """Where an observation belongs."""

    rung: str
    check: str
    probe: str


@dataclass(frozen=True)
class SentQuestion:
    """A question as it goes out."""

    messages: list[dict[str, Any]]
    max_tokens: int
    mode: Mode = "instant"
    stream: bool = False
    tools: list[dict[str, Any]] | None = None
    choice: str | None = None
    options: dict[str, Any] | None = None
    optional: bool = False
    """A server may refuse it by HTTP 4xx without being broken: then it is unsupported, in the server's words."""
    about_prompt_tokens: int = 0
    """For the time that is waited."""


def observe(stand: ProofContext, slot: Slot, asked: SentQuestion, judge: Judge) -> Observation:
    """Ask, let the guards look, then the rule."""
    return observe_answer(stand, slot, asked, judge)[0]


def observe_answer(
    stand: ProofContext, slot: Slot, asked: SentQuestion, judge: Judge
) -> tuple[Observation, Answer | None]:
    at, started = utc_now(), time.monotonic()
    try:
        answer = send(stand, asked)
    except EndpointError as error:
        verdict: Verdict = "unsupported" if asked.optional and was_refused(error) else "failed"
        seen = observation_of(stand, slot, verdict, error.message, at=at, seconds=time.monotonic() - started)
        return seen.model_copy(update={"request": bounded_request(request_of(stand, asked))}), None
    broken = next(complaints(answer, scripts=stand.prompts.scripts), None)
    verdict, reason = _complained(broken) if broken else judge_isolated(lambda: judge(answer))
    verdict = fault_or_weakness(stand, verdict, slot)
    seen = observation_of(stand, slot, verdict, reason, at=at, seconds=answer.seconds)
    details = {
        "request": bounded_request(answer.request),
        "response": answer.response,
        "guard": broken.guard if broken else None,
        "measured": {**figures(answer), **seen.measured},
    }
    return Observation.model_validate({**dict(seen), **details}), answer


def fault_or_weakness(stand: ProofContext, verdict: Verdict, slot: Slot | None = None) -> Verdict:
    """Whose fault a wrong answer is. The plain questions of `smoke` are the control: of a model that answers them all
    rightly, what is wrong elsewhere (JSON, tool calls, a long text) is the engine's fault; one that does not may be as
    wrong there. `slot` is the question's own place."""
    if verdict != "wrong":
        return verdict
    wrong = {(seen.rung, seen.check) for seen in stand.observations if seen.verdict == "wrong"}
    shown = CONTROL & (wrong | ({(slot.rung, slot.check)} if slot else set()))
    return "wrong" if stand.may_be_weak and shown else "failed"


def _complained(broken: Complaint) -> Judgement:
    """A small model repeats itself too, in sound pieces."""
    return "wrong" if broken.guard == "loop" else "failed", broken.what


def was_refused(error: EndpointError) -> bool:
    """The server took the question and will not answer its like, which is no fault."""
    return error.status in _REFUSED


def judge_isolated(judge: Callable[[], Judgement]) -> Judgement:
    """A judgement; what would need code to be run where nothing keeps it apart is not run."""
    try:
        return judge()
    except NotIsolatedError as error:
        return "skipped", f"{NOT_RUN}no isolation for generated code ({error})"


def send(stand: ProofContext, asked: SentQuestion) -> Answer:
    request = request_of(stand, asked)
    messages = request.pop("messages")
    put = stand.endpoint.stream if asked.stream else stand.endpoint.chat
    answer = put(messages, timeout_seconds=patience(stand, asked), **request)
    learn(stand, answer)
    return answer


def observation_of(
    stand: ProofContext,
    slot: Slot,
    verdict: Verdict,
    reason: str,
    *,
    at: str | None = None,
    seconds: float = 0.0,
    **fields: Any,
) -> Observation:
    """An observation that needed no question, or the frame of one that did."""
    return Observation(
        rung=slot.rung,
        check=slot.check,
        probe=slot.probe,
        verdict=verdict,
        reason=reason,
        at=at or utc_now(),
        seconds=round(seconds, 3),
        subject=stand.target.reference,
        prompts=f"{stand.prompts.name}:{stand.prompts.digest}",
        **{"request": {}, "response": None, **fields},
    )


def learn(stand: ProofContext, answer: Answer) -> None:
    """Rates, where the answer is long enough to be a witness."""
    seen = figures(answer)
    computed = (answer.prompt_tokens or 0) - (answer.cached_tokens or 0)
    prefill = seen.get("prefill_tokens_per_second") if computed >= _WITNESS_TOKENS else None
    decode = seen.get("decode_tokens_per_second") if (answer.completion_tokens or 0) >= 8 else None
    stand.rates.learn(prefill=prefill, decode=decode, prompt_tokens=computed)
    stand.rates.at_least(computed, answer.completion_tokens or 0, answer.seconds)


def figures(answer: Answer) -> dict[str, float]:
    """What can be read off one answer: the server's own timings if it gives them, else the stream's."""
    measured: dict[str, float] = {}
    counts = {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "cached_tokens": answer.cached_tokens,
    }
    measured |= {name: float(count) for name, count in counts.items() if count is not None}
    timings = answer.response.get("timings")
    if isinstance(timings, dict):  # llama.cpp
        names = {
            "prefill_tokens_per_second": "prompt_per_second",
            "decode_tokens_per_second": "predicted_per_second",
        }
        measured |= {ours: float(timings[its]) for ours, its in names.items() if _positive(timings.get(its))}
    elif answer.first_seconds:
        measured["first_seconds"] = round(answer.first_seconds, 4)
        computed = (answer.prompt_tokens or 0) - (answer.cached_tokens or 0)
        if computed > 0:
            measured["prefill_tokens_per_second"] = round(computed / answer.first_seconds, 3)
        writing = answer.seconds - answer.first_seconds
        if (answer.completion_tokens or 0) > 1 and writing > 0:
            measured["decode_tokens_per_second"] = round(((answer.completion_tokens or 0) - 1) / writing, 3)
    return measured


def bounded_request(request: dict[str, Any]) -> dict[str, Any]:
    """A request as evidence holds it: bounded, whatever the prompt's length."""
    messages = [_kept_message(message) for message in request.get("messages") or ()]
    return {**request, "messages": messages}


def text_of(seen: Observation) -> str:
    """The answer's text, as an observation holds it."""
    return Answer({}, seen.response or {}, 0).text


def request_of(stand: ProofContext, asked: SentQuestion) -> dict[str, Any]:
    """As it goes out, but for the model's name."""
    request: dict[str, Any] = {"messages": asked.messages, "temperature": 0, "max_tokens": asked.max_tokens}
    if asked.tools:
        request["tools"] = asked.tools
        if asked.choice is not None:
            request["tool_choice"] = asked.choice
    return {**request, **stand.prompts.modes.get(asked.mode, {}), **(asked.options or {})}


def patience(stand: ProofContext, asked: SentQuestion) -> float:
    """Without a token: two minutes, and four times the longest estimate of what goes on unseen: reading, and writing
    where the engine shows nothing of it. An hour for a long prompt of which nothing is known."""
    writing = 0 if asked.stream or stand.endpoint.shows_tokens else asked.max_tokens
    about = stand.rates.longest_seconds(asked.about_prompt_tokens, writing)
    if about is None:
        return _LEAST_TIMEOUT_SECONDS if asked.about_prompt_tokens < 4_096 else _UNKNOWN_RATE_TIMEOUT_SECONDS
    return _LEAST_TIMEOUT_SECONDS + 4 * min(about, _UNKNOWN_RATE_TIMEOUT_SECONDS)


def _kept_message(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, str) or len(content) <= LONG_CHARACTERS:
        return message
    digest = hashlib.sha256(content.encode()).hexdigest()
    return {**message, "content": {"sha256": digest, "characters": len(content), "ends_with": content[-200:]}}


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

"""Sends a client's own first request to the running engine, and says whether the client will work."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from upright.base.errors import EndpointError
from upright.facts.records.base import Part
from upright.serving.connect.client_settings import ClientSettings
from upright.serving.connect.first_requests import FirstRequest, first_request, first_requests, request_body
from upright.serving.connect.requirements import client_verdict, requirements_of
from upright.serving.connect.responses_stream import responses_faults
from upright.serving.connect.streams import anthropic_faults, anthropic_overlaps, events_of, object_of, openai_faults
from upright.serving.endpoint.client import Endpoint

CHARACTERS_A_TOKEN = 4
"""Characters of a token, where the engine has not counted: English with the vocabularies of large models."""
_PATIENCE_SECONDS = 900
_COUNTED = re.compile(
    r"\((\d+) tokens?\)|n_prompt_tokens\D{1,4}(\d+)|(\d+) (?:input|prompt) tokens|contains (?:at least )?(\d+)"
)
_TOOLS_REFUSED = re.compile(r"tool[-_ ]?(choice|call[-_ ]?parser|s?\b)", re.IGNORECASE)


class ClientTrial(Part):
    """What came of a client's first request."""

    works: bool
    """Whether the client gets as far as an answer."""
    why: tuple[str, ...] = ()
    """What keeps it from that."""
    advice: tuple[str, ...] = ()
    """What to do then."""
    faults: tuple[str, ...] = ()
    """What in the stream is not as the protocol has it; many clients bear it."""
    prompt_tokens: int | None = None
    """Tokens of its first prompt, as the engine counts them."""
    seconds: float | None = None
    """From the request to the end of its short answer."""
    measured: bool = False
    """Whether the request was as large as the real client's."""
    variant: str | None = None
    """The client's argument by which the request was made small enough; None for the ordinary request."""


def try_settings(
    settings: ClientSettings, key: str, *, variant: str | None = None, verdicts: Mapping[str, str] | None = None
) -> ClientTrial:
    """As the client would ask; `verdicts` are those of the rung `clients`, if it was climbed. EndpointError if nothing
    answers there, or another model does."""
    root = settings.base_url.removesuffix("/v1") if settings.protocol == "openai" else settings.base_url
    with Endpoint(root, settings.model, key=key, timeout_seconds=_PATIENCE_SECONDS) as endpoint:
        served = [settings.model] if endpoint.names_what_is_loaded else endpoint.models()
        if settings.model not in served:
            raise EndpointError(f"{root} serves {', '.join(served) or 'nothing'}, not {settings.model}")
        return tried(endpoint, settings, verdicts or {}, variant=variant)


def tried(
    endpoint: Endpoint, settings: ClientSettings, verdicts: Mapping[str, str], *, variant: str | None = None
) -> ClientTrial:
    """The one judgement of a client: its own first prompt fits and is answered, and every check that it needs held."""
    trial = _first_answer(endpoint, settings, first_request(settings.client, variant))
    standing = client_verdict(requirements_of(settings.client), verdicts)
    if standing.outcome != "does not":
        return trial
    why = f"the checks that it needs and that did not hold: {', '.join(standing.words)}"
    return trial.model_copy(update={"works": False, "why": (*trial.why, why)})


def _first_answer(endpoint: Endpoint, settings: ClientSettings, row: FirstRequest) -> ClientTrial:
    if (trial := _too_long_to_send(row, settings)) is not None:
        return trial
    begun = time.monotonic()
    try:
        lines = endpoint.raw_lines(row.path, request_body(row, settings.model), timeout_seconds=_PATIENCE_SECONDS)
    except EndpointError as error:
        if error.status is None or error.status in (401, 403) or error.status >= 500:
            raise
        return _refused(row, settings, error)
    return _judged(row, settings, lines, time.monotonic() - begun)


def _too_long_to_send(row: FirstRequest, settings: ClientSettings) -> ClientTrial | None:
    """Nothing is gained by prefilling what cannot fit: fewer tokens than a sixth of its characters no model makes."""
    least = (row.characters or 0) // (CHARACTERS_A_TOKEN + 2)
    if least + settings.output_tokens <= settings.context_tokens:
        return None
    return _too_long(row, settings, None)


def _refused(row: FirstRequest, settings: ClientSettings, error: EndpointError) -> ClientTrial:
    counted = _COUNTED.search(str(error))
    tokens = next((int(digits) for digits in counted.groups() if digits), None) if counted else None
    if tokens is not None and tokens + settings.output_tokens > settings.context_tokens:
        return _too_long(row, settings, tokens)
    if row.tools and _TOOLS_REFUSED.search(str(error)):
        why = f"its request has {row.tools} tools, and the engine refuses them with HTTP {error.status}: {error}"
        advice = "start the engine with a tool-call parser for this model: upright render says which, and what to try"
        return ClientTrial(works=False, why=(why,), advice=(advice,))
    return ClientTrial(works=False, why=(f"its request to {row.path} is refused: {error}",))


def _judged(row: FirstRequest, settings: ClientSettings, lines: list[str], seconds: float) -> ClientTrial:
    faults = _faults(row, lines)
    tokens = _prompt_tokens(lines)
    trial = ClientTrial(
        works=True,
        faults=tuple(faults),
        prompt_tokens=tokens,
        seconds=seconds,
        measured=row.characters is not None,
        variant=row.variant,
    )
    if tokens is not None and row.characters and tokens + settings.output_tokens > settings.context_tokens:
        return _too_long(row, settings, tokens).model_copy(update={"faults": trial.faults, "seconds": seconds})
    return trial


def _too_long(row: FirstRequest, settings: ClientSettings, tokens: int | None) -> ClientTrial:
    prompt = tokens or (row.characters or 0) // CHARACTERS_A_TOKEN
    about = f"{prompt:,}" if tokens else f"about {prompt:,}"
    why = (
        f"its first prompt has {about} tokens ({row.characters:,} characters, {row.tools} tools), and of the "
        f"{settings.context_tokens:,} tokens served {settings.output_tokens:,} are kept for the answer"
    )
    advice = [f"serve at least {_least_context(prompt):,} tokens: upright up MODEL --context {_rounded(prompt)}"]
    smaller = (other for other in first_requests() if other.client == row.client and other.variant != row.variant)
    advice += [
        f"or {settings.program} {other.variant}: about {other.characters // CHARACTERS_A_TOKEN:,} tokens"
        for other in smaller
        if other.variant and other.characters
    ]
    return ClientTrial(works=False, why=(why,), advice=tuple(advice), prompt_tokens=tokens)


def _least_context(prompt_tokens: int) -> int:
    """A quarter of the context is kept for the answer."""
    return -(-prompt_tokens * 4 // 3)


def _rounded(prompt_tokens: int) -> str:
    """The next size that people type."""
    size = 4
    while size * 1024 < _least_context(prompt_tokens):
        size *= 2
    return f"{size}k"


def _faults(row: FirstRequest, lines: list[str]) -> list[str]:
    if row.path == "/v1/messages":
        return [*anthropic_faults(lines), *anthropic_overlaps(lines)]
    return responses_faults(lines) if row.path == "/v1/responses" else openai_faults(lines)


def _prompt_tokens(lines: list[str]) -> int | None:
    """The last count of the prompt in the stream, by whichever name the protocol has for it."""
    counts: list[int] = []
    for _, text in events_of(lines):
        content = object_of(text)
        for holder in (content, content.get("message"), content.get("response")) if content else ():
            usage = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(usage, dict):
                names = ("prompt_tokens", "input_tokens", "cache_read_input_tokens")
                numbers = [usage[name] for name in names if type(usage.get(name)) is int]
                counts += [sum(numbers)] if numbers else []
    return max(counts, default=None)

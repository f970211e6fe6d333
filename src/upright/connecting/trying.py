"""ClientSettings -> one real request, sent as that client would send it."""

from __future__ import annotations

from upright.connecting.settings import ClientSettings
from upright.connecting.streams import anthropic_faults, anthropic_overlaps, openai_faults
from upright.endpoint.client import Endpoint
from upright.errors import EndpointError

_QUESTION = [{"role": "user", "content": "Say OK."}]
_ANSWER_TOKENS = 8


def try_settings(settings: ClientSettings, key: str, *, timeout_seconds: float = 120) -> list[str]:
    """What in the stream breaks the client's protocol; EndpointError if the engine does not answer at all."""
    root = settings.base_url.removesuffix("/v1") if settings.protocol == "openai" else settings.base_url
    asked = {
        "model": settings.model,
        "messages": _QUESTION,
        "max_tokens": _ANSWER_TOKENS,
        "temperature": 0,
        "stream": True,
    }
    with Endpoint(root, settings.model, key=key, timeout_seconds=timeout_seconds) as endpoint:
        served = endpoint.models()
        if settings.model not in served:
            raise EndpointError(f"{root} serves {', '.join(served) or 'nothing'}, not {settings.model}")
        if settings.protocol == "anthropic":
            lines = endpoint.raw_lines("/v1/messages", asked)
            return [*anthropic_faults(lines), *anthropic_overlaps(lines)]
        counted = {**asked, "stream_options": {"include_usage": True}}
        return openai_faults(endpoint.raw_lines("/v1/chat/completions", counted))

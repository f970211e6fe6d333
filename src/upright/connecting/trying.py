"""ClientSettings -> one real request, sent as that client would send it."""

from __future__ import annotations

from upright.connecting.settings import ClientSettings
from upright.endpoint.client import Endpoint
from upright.errors import EndpointError

_QUESTION = [{"role": "user", "content": "Say OK."}]
_ANSWER_TOKENS = 8


def try_settings(settings: ClientSettings, key: str, *, timeout_seconds: float = 120) -> None:
    """EndpointError if the engine does not answer these settings."""
    root = settings.base_url.removesuffix("/v1") if settings.protocol == "openai" else settings.base_url
    with Endpoint(root, settings.model, key=key, timeout_seconds=timeout_seconds) as endpoint:
        served = endpoint.models()
        if settings.model not in served:
            raise EndpointError(f"{root} serves {', '.join(served) or 'nothing'}, not {settings.model}")
        if settings.protocol == "openai":
            endpoint.chat(_QUESTION, max_tokens=_ANSWER_TOKENS)
        else:
            asked = {"model": settings.model, "messages": _QUESTION, "max_tokens": _ANSWER_TOKENS}
            answered = endpoint.post("/v1/messages", asked)
            if answered.get("type") != "message":
                raise EndpointError(
                    f"{root}/v1/messages answered with no message", hint="its Messages API is not whole"
                )

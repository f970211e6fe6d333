"""What can be known of somebody else's OpenAI-compatible server by asking."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from upright.base.errors import EndpointError, UsageError
from upright.engines import ENGINES
from upright.proof.ladder.rung import ProofTarget
from upright.serving.endpoint.client import Endpoint


def server_target(endpoint: Endpoint, context_tokens: int | None = None) -> ProofTarget:
    """Its engine, version and context as it says itself; what it does not say stays unknown."""
    card = next((card for card in endpoint.model_cards() if card.get("id") == endpoint.model), {})
    props = _asked(endpoint, "/props")
    engine, version = _engine(endpoint, card, props)
    return ProofTarget(
        name=f"{endpoint.base_url} ({endpoint.model})",
        reference=f"server:{hashlib.sha256(f'{endpoint.base_url} {endpoint.model}'.encode()).hexdigest()}",
        context_tokens=context_tokens or _context(card, props),
        users=_whole(props.get("total_slots")) or 1,
        engine=engine,
        engine_version=version,
        parameters=_whole(meta.get("n_params")) if isinstance(meta := card.get("meta"), dict) else None,
    )


def key_in(variable: str | None) -> str | None:
    """The key that the person named for a server; no other of theirs is sent to anybody."""
    if variable is None:
        return None
    if not (key := os.environ.get(variable, "").strip()):
        raise UsageError(f"{variable} is not set, or empty", hint=f"export {variable}=…, or leave out --key-env")
    return key


@contextmanager
def server_endpoint(
    base_url: str, model: str | None, key_env: str | None, budget_seconds: float | None = None
) -> Iterator[Endpoint]:
    """Where no model is named: the only one that it serves. The budget runs from here on."""
    with Endpoint(base_url, model or "", key=key_in(key_env), watched=True) as endpoint:
        endpoint.ends = None if budget_seconds is None else time.monotonic() + budget_seconds
        if not endpoint.model:
            names = endpoint.models()
            if len(names) != 1:
                served = ", ".join(names) or "nothing"
                raise UsageError(f"{endpoint.base_url} serves {served}", hint="name one with --model")
            endpoint.model = names[0]
        yield endpoint


def _engine(endpoint: Endpoint, card: dict[str, Any], props: dict[str, Any]) -> tuple[str | None, str | None]:
    owner = str(card.get("owned_by") or "").lower()
    http_by_engine = {name: engine.http for name, engine in ENGINES.items() if engine.http.owner is not None}
    called = [(name, http) for name, http in http_by_engine.items() if http.server and http.server == endpoint.server]
    for name, http in called or http_by_engine.items():
        # One with slots tells its build where it tells of them; the first of a family stands for its forks.
        if http.slots and ("build_info" in props or str(http.owner) in owner):
            return name, _text(props.get("build_info"))
    version = _text(_asked(endpoint, "/version").get("version"))
    return next((name for name, http in http_by_engine.items() if http.owner == owner), None), version


def _context(card: dict[str, Any], props: dict[str, Any]) -> int | None:
    """vLLM and SGLang say it of the model; llama.cpp of each slot."""
    settings = props.get("default_generation_settings")
    slot = settings.get("n_ctx") if isinstance(settings, dict) else None
    return _whole(card.get("max_model_len")) or _whole(slot)


def _asked(endpoint: Endpoint, path: str) -> dict[str, Any]:
    with suppress(EndpointError):
        return endpoint.json(path)
    return {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None

"""MLX: Plan -> the words of `mlx_lm.server`, mlx-lm 0.32.2.

It has no flag for the context, the served name or a key: what a plan decides and no flag says is in the notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address

from upright.base.errors import UsageError
from upright.base.units import format_memory, format_tokens
from upright.engines import dialects, model_settings
from upright.engines.facets.flags import FlagCase, Flags
from upright.facts.records.recipe import Setting

_SERVER = "mlx_lm 0.32.2 server.py"
_BITS = {"q8_0": "8", "q4_0": "4"}
_LONGEST_ANSWER = 32_768
"""Tokens of an answer for which a client named no limit: the engine's own 512 end in the middle of a thought."""


class MlxFlags:
    """The words of mlx-lm's server."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        return (*_address(case), *_memory(case), *_requests(case), *_template(case))

    def environment(self, case: FlagCase) -> tuple[Setting, ...]:
        return ()

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return (*_notes(case), *model_settings.shared_notes(case), *dialects.template_notes(case))


FLAGS: Flags = MlxFlags()


def _address(case: FlagCase) -> Iterator[Setting]:
    serving = case.serving
    if not _is_loopback(serving.host):
        hint = "bind loopback and reach it through ssh -L, or put a proxy that asks for a key before it"
        raise UsageError(f"this server takes no API key: it is not bound to {serving.host}", hint=hint)
    yield Setting(name="--model", value=serving.model_path, reason=model_settings.artifact_words(case))
    yield Setting(name="--host", value=serving.host, reason="loopback alone: it takes no key", source=_SERVER)
    yield Setting(name="--port", value=str(serving.port), reason="port of the OpenAI-compatible API")


def _memory(case: FlagCase) -> Iterator[Setting]:
    plan = case.plan
    if plan.ubatch_tokens:
        yield Setting(
            name="--prefill-step-size",
            value=str(plan.ubatch_tokens),
            reason="tokens of a prompt computed at once, as the plan counted their memory",
            source=_SERVER,
        )
    if bits := _BITS.get(plan.kv.dtype):
        yield Setting(name="--kv-bits", value=bits, reason="the cache type that the plan counted", source="the plan")
        yield Setting(
            name="--quantized-kv-start",
            value="0",
            reason="from the first token: by itself from 5,000 on, where a fault shows only in long prompts",
            source=f"{_SERVER}: default 5000",
        )
    if not case.serving.prefix_caching:
        yield model_settings.without_prefix_cache("--prompt-cache-size", _SERVER).model_copy(update={"value": "0"})
    elif room := int(plan.kv.low_tokens * (plan.kv.low_bytes_per_token or 0)):
        yield Setting(
            name="--prompt-cache-bytes",
            value=str(room),
            reason=f"{format_memory(room)} for caches, in flight and remembered: what the plan found room for; "
            "by itself it remembers ten conversations of any length",
            source=_SERVER,
        )


def _requests(case: FlagCase) -> Iterator[Setting]:
    users = str(case.plan.goal.users)
    yield Setting(name="--decode-concurrency", value=users, reason="requests decoded at once", source=_SERVER)
    yield Setting(name="--prompt-concurrency", value=users, reason="prompts read at once", source=_SERVER)
    yield Setting(
        name="--max-tokens",
        value=str(min(case.plan.context_tokens, _LONGEST_ANSWER)),
        reason="of an answer, where the client names no limit: 512 by itself, which ends in a thought",
        source=_SERVER,
    )
    for name, number in model_settings.sampling(case.row, instant=False).items():
        if flag := {"temperature": "--temp", "top_p": "--top-p", "top_k": "--top-k"}.get(name):
            yield Setting(name=flag, value=f"{number:g}", reason="the maker's setting; by itself it samples greedily")


def _template(case: FlagCase) -> Iterator[Setting]:
    yield from model_settings.remote_code_settings(case, _SERVER)
    off = model_settings.non_thinking_arguments(case.row, case.plan)
    if off is not None:
        words = json.dumps(off, separators=(",", ":"))
        yield Setting(name="--chat-template-args", value=words, reason="non-thinking mode; a request can still ask")


def _notes(case: FlagCase) -> Iterator[str]:
    plan = case.plan
    yield (
        f"No flag limits the context: a cache grows until memory ends. {format_tokens(plan.context_tokens)} tokens for "
        f"each of {plan.goal.users} users are what was planned; `upright connect` gives clients that limit."
    )
    yield (
        "It asks for no key: whoever reaches the port is served, and a request that names another model unloads this "
        f'one. Clients ask for "{case.serving.served_name}".'
    )
    if plan.goal.users > 1 and (plan.kv.dtype in _BITS or plan.goal.draft):
        what = "a quantised cache" if plan.kv.dtype in _BITS else "a draft model"
        yield f"With {what} requests are served one after another, not together."
    yield "A request with a `seed` is served alone: load tests leave it out."


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False

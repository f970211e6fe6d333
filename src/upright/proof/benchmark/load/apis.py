"""Request bytes and stream events of each API that engines speak."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from upright.base import bounds
from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import UsageError
from upright.facts.records.benchmark import Api
from upright.serving.endpoint.address import without_credentials

Message = dict[str, str]


class EventContent(NamedTuple):
    """What one event says; None and "" where it says nothing."""

    text: str
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    error: str | None = None


@dataclass(frozen=True)
class LoadTarget:
    """Where requests go. The key is kept out of every representation."""

    base_url: str
    model: str
    api: Api = "chat"
    key: str | None = field(default=None, repr=False)
    extra: tuple[tuple[str, Any], ...] = ()
    """More fields of the body, such as ignore_eos."""

    def __post_init__(self) -> None:
        parts = urlsplit(without_credentials(self.base_url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{self.base_url!r} is not an address", hint="write http://HOST:PORT, without /v1")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.base_url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def path(self) -> str:
        return _PATHS[self.api]

    @property
    def secure(self) -> bool:
        return self.base_url.startswith("https:")

    def request(self, messages: list[Message], output_tokens: int) -> bytes:
        """The whole request, head and body, ready to be written."""
        body = _BODIES[self.api](messages)
        body |= {"model": self.model, "max_tokens": output_tokens, "stream": True, "temperature": 0.0}
        if self.api != "messages":
            body["stream_options"] = {"include_usage": True}
        body |= dict(self.extra)
        return self.post(self.path, body)

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        content = json.dumps(body, ensure_ascii=False).encode()
        return self._head("POST", path, length=len(content)) + content

    def get(self, path: str) -> bytes:
        return self._head("GET", path, more="Connection: close\r\n")

    def read(self, event: bytes) -> EventContent:
        """ValueError if the event is not what the API sends."""
        data = parse_json(event)
        if not isinstance(data, dict):
            raise ValueError("an event that is no object")  # noqa: TRY004 (what json.loads raises, too)
        if data.get("error"):
            return EventContent("", error=json.dumps(data["error"], ensure_ascii=False)[:200])
        told = _READERS[self.api](data)
        if type(told.text) is not str or (told.finish_reason is not None and type(told.finish_reason) is not str):
            raise ValueError("an event whose text is none")
        return told

    def _head(self, method: str, path: str, *, length: int | None = None, more: str = "") -> bytes:
        prefix = urlsplit(self.base_url).path.rstrip("/")
        lines = f"{method} {prefix}{path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{more}"
        if length is not None:
            lines += f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
        if self.key:
            lines += f"Authorization: Bearer {self.key}\r\n"
            if self.api == "messages":
                lines += f"x-api-key: {self.key}\r\n"
        if self.api == "messages":
            lines += "anthropic-version: 2023-06-01\r\n"
        return f"{lines}\r\n".encode()


_PATHS: dict[Api, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
}
_BODIES: dict[Api, Callable[[list[Message]], dict[str, Any]]] = {
    "chat": lambda messages: {"messages": messages},
    "completions": lambda messages: {"prompt": "\n\n".join(message["content"] for message in messages)},
    "messages": lambda messages: {"messages": messages},
}


def _read_chat(data: dict[str, Any]) -> EventContent:
    choices = data.get("choices")
    usage = _openai_usage(data)
    if not choices:
        return EventContent("", usage=usage)
    choice = choices[0]
    delta = choice.get("delta") or {}
    text = delta.get("content") or delta.get("reasoning") or delta.get("reasoning_content") or ""
    if not text and (calls := delta.get("tool_calls")):
        text = "".join((call.get("function") or {}).get("arguments") or "" for call in calls)
    return EventContent(text, choice.get("finish_reason"), usage)


def _read_completions(data: dict[str, Any]) -> EventContent:
    choices = data.get("choices")
    usage = _openai_usage(data)
    if not choices:
        return EventContent("", usage=usage)
    return EventContent(choices[0].get("text") or "", choices[0].get("finish_reason"), usage)


def _openai_usage(data: dict[str, Any]) -> dict[str, int] | None:
    raw_usage = data.get("usage")
    if not isinstance(raw_usage, dict) or raw_usage.get("completion_tokens") is None:
        return None
    usage = {"prompt": _tokens(raw_usage.get("prompt_tokens") or 0), "output": _tokens(raw_usage["completion_tokens"])}
    details = raw_usage.get("prompt_tokens_details")
    if isinstance(details, dict) and details.get("cached_tokens") is not None:
        usage["cached"] = _tokens(details["cached_tokens"])
    # llama.cpp adds its own timings: what speculation drafted is in no other place of its answer.
    timings = data.get("timings")
    if isinstance(timings, dict):
        for name, ours in (("cache_n", "cached"), ("draft_n", "drafted"), ("draft_n_accepted", "accepted")):
            if (count := bounds.checked_count(timings.get(name))) is not None:
                usage[ours] = count
    return usage


def _tokens(value: Any) -> int:
    count = bounds.checked_count(value)
    if count is None:
        raise ValueError(f"{str(value)[:20]} tokens")
    return count


def _read_messages(data: dict[str, Any]) -> EventContent:
    match data.get("type"):
        case "content_block_delta":
            delta = data.get("delta") or {}
            return EventContent(delta.get("text") or delta.get("thinking") or delta.get("partial_json") or "")
        case "message_start":
            raw_usage = (data.get("message") or {}).get("usage") or {}
            return EventContent("", usage=_anthropic_usage(raw_usage))
        case "message_delta":
            usage = _anthropic_usage(data.get("usage") or {})
            return EventContent("", (data.get("delta") or {}).get("stop_reason"), usage)
        case _:
            return EventContent("")


def _anthropic_usage(found: dict[str, Any]) -> dict[str, int]:
    """The start has the prompt's tokens and the end the output's: the stream adds them up."""
    usage = {}
    cached = bounds.checked_count(found.get("cache_read_input_tokens"))
    if prompt := bounds.checked_count(found.get("input_tokens")):
        usage["prompt"] = prompt + (cached or 0)
    if cached is not None:
        usage["cached"] = cached
    if output := bounds.checked_count(found.get("output_tokens")):
        usage["output"] = output
    return usage


_READERS: dict[Api, Callable[[dict[str, Any]], EventContent]] = {
    "chat": _read_chat,
    "completions": _read_completions,
    "messages": _read_messages,
}

"""Asks a server for token counts, and whether it takes our options."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import httpx2

from upright.base import bounds, units
from upright.base.errors import EndpointError
from upright.proof.benchmark.load import LoadTarget, Message

_IGNORE_END = (("ignore_eos", True),)
_PATIENCE_SECONDS = 600


class Server:
    """The same server that a Target names, asked one question at a time."""

    def __init__(self, target: LoadTarget, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self.target = target
        self._patience = patience_seconds
        # Nothing here is timed, and a connection kept open is one that the server may be closing as we ask.
        self._http = bounds.client(timeout=_PATIENCE_SECONDS, trust_env=False, headers={"Connection": "close"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def prompt_tokens(self, messages: list[Message]) -> int:
        """What the server counts for a prompt, from the usage of an answer of one token."""
        status, body = self._ask(messages, self.target)
        if status != 200:
            hint = "the key is wrong or missing" if status in (401, 403) else None
            raise EndpointError(f"{self.target.base_url} answered HTTP {status}: {str(body)[:200]}", hint=hint)
        usage = body.get("usage") if isinstance(body, dict) else None
        names = ("input_tokens", "cache_read_input_tokens") if self.target.api == "messages" else ("prompt_tokens",)
        counted = sum(bounds.checked_count(usage.get(name)) or 0 for name in names) if isinstance(usage, dict) else 0
        if not counted:
            raise EndpointError(f"{self.target.base_url} does not say how many tokens a prompt has")
        return counted

    def text_tokens(self, text: str) -> int | None:
        """What the server's own tokenizer counts, without an answer; None if it has no such page."""
        # vLLM and SGLang take `prompt` and answer `count`, llama.cpp takes `content` and answers `tokens`.
        body = {"model": self.target.model, "prompt": text, "content": text}
        try:
            status, content = self._exchanged("POST", "/tokenize", 30, body)
            answer = bounds.parse_peer_json(content) if status == 200 else None
        except (httpx2.HTTPError, bounds.ExceededError, ValueError):
            return None
        if not isinstance(answer, dict):
            return None
        counted, tokens = bounds.checked_count(answer.get("count")), answer.get("tokens")
        return counted if counted is not None else len(tokens) if isinstance(tokens, list) else None

    def told_to_ignore_the_end(self) -> tuple[LoadTarget, bool]:
        """The target with `ignore_eos`, if the server takes it: else answers end when the model ends them."""
        if self.target.api == "messages":
            return self.target, False
        asked = replace(self.target, extra=_IGNORE_END)
        status, _ = self._ask([{"role": "user", "content": "go"}], asked)
        return (asked, True) if status == 200 else (self.target, False)

    def text(self, path: str) -> str | None:
        """A page of the server; None if it has none."""
        try:
            status, content = self._exchanged("GET", path, 10)
        except (httpx2.HTTPError, bounds.ExceededError):
            return None
        return content.decode("utf-8", "replace") if status == 200 else None

    def _ask(self, messages: list[Message], target: LoadTarget) -> tuple[int, Any]:
        content = target.request(messages, 1).partition(b"\r\n\r\n")[2]
        body = {name: parameter for name, parameter in json.loads(content).items() if name != "stream_options"}
        began = time.monotonic()
        try:
            status, content = self._exchanged("POST", target.path, self._patience, {**body, "stream": False})
        except (httpx2.TimeoutException, bounds.OverdueError):
            waited = units.format_duration(time.monotonic() - began)
            raise EndpointError(f"{target.base_url} did not answer in {waited}") from None
        except bounds.ExceededError as error:
            raise EndpointError(f"{target.base_url} {error}") from None
        except httpx2.HTTPError as error:
            raise EndpointError(
                f"{target.base_url} {bounds.describe_failure(error)}", hint="is it running? upright ps"
            ) from None
        try:
            return status, bounds.parse_peer_json(content)
        except bounds.ExceededError as error:
            raise EndpointError(f"{target.base_url} {error}") from None
        except ValueError:
            return status, content.decode("utf-8", "replace")

    def _exchanged(
        self, method: str, path: str, patience_seconds: float, body: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """Status and content; of a refusal the beginning of it."""
        url = f"{self.target.base_url.rstrip('/')}{path}"
        with (
            bounds.time_limit(patience_seconds),
            self._http.stream(method, url, json=body, headers=self._headers(), timeout=patience_seconds) as response,
        ):
            read = bounds.body if response.status_code == 200 else bounds.first_bytes
            return response.status_code, read(response)

    def _headers(self) -> dict[str, str]:
        if not self.target.key:
            return {}
        return {"Authorization": f"Bearer {self.target.key}", "x-api-key": self.target.key}

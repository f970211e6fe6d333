"""A Target -> what its server says: token counts, and whether it takes our options."""

from __future__ import annotations

import json
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import httpx2

from upright.benchmarking.load import Message, Target
from upright.errors import EndpointError

_IGNORE_END = (("ignore_eos", True),)
_PATIENCE_SECONDS = 600


class Server:
    """The same server that a Target names, asked one question at a time."""

    def __init__(self, target: Target) -> None:
        self.target = target
        # Nothing here is timed, and a connection kept open is one that the server may be closing as we ask.
        self._http = httpx2.Client(timeout=_PATIENCE_SECONDS, trust_env=False, headers={"Connection": "close"})

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
        usage = body.get("usage") or {} if isinstance(body, dict) else {}
        if self.target.api == "messages":
            counted = (usage.get("input_tokens") or 0) + (usage.get("cache_read_input_tokens") or 0)
        else:
            counted = usage.get("prompt_tokens") or 0
        if not counted:
            raise EndpointError(f"{self.target.base_url} does not say how many tokens a prompt has")
        return int(counted)

    def text_tokens(self, text: str) -> int | None:
        """What the server's own tokenizer counts, without an answer; None if it has no such page."""
        # vLLM and SGLang take `prompt` and answer `count`, llama.cpp takes `content` and answers `tokens`.
        body = {"model": self.target.model, "prompt": text, "content": text}
        try:
            answer = self._http.post(
                f"{self.target.base_url.rstrip('/')}/tokenize", json=body, headers=self._headers(), timeout=30
            )
            found = answer.json() if answer.status_code == 200 else {}
        except (httpx2.HTTPError, ValueError):
            return None
        if not isinstance(found, dict):
            return None
        tokens = found.get("tokens")
        return (
            found["count"] if isinstance(found.get("count"), int) else len(tokens) if isinstance(tokens, list) else None
        )

    def told_to_ignore_the_end(self) -> tuple[Target, bool]:
        """The target with `ignore_eos`, if the server takes it: else answers end when the model ends them."""
        if self.target.api == "messages":
            return self.target, False
        asked = replace(self.target, extra=_IGNORE_END)
        status, _ = self._ask([{"role": "user", "content": "go"}], asked)
        return (asked, True) if status == 200 else (self.target, False)

    def text(self, path: str) -> str | None:
        """A page of the server; None if it has none."""
        try:
            answer = self._http.get(f"{self.target.base_url.rstrip('/')}{path}", timeout=10, headers=self._headers())
        except httpx2.HTTPError:
            return None
        return answer.text if answer.status_code == 200 else None

    def _ask(self, messages: list[Message], target: Target) -> tuple[int, Any]:
        content = target.request(messages, 1).partition(b"\r\n\r\n")[2]
        body = {name: value for name, value in json.loads(content).items() if name != "stream_options"}
        try:
            answer = self._http.post(
                f"{target.base_url.rstrip('/')}{target.path}", json={**body, "stream": False}, headers=self._headers()
            )
        except httpx2.TimeoutException:
            raise EndpointError(f"{target.base_url} did not answer in {_PATIENCE_SECONDS} s") from None
        except httpx2.HTTPError as error:
            raise EndpointError(
                f"{target.base_url} cannot be reached: {error}", hint="is it running? upright ps"
            ) from None
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    def _headers(self) -> dict[str, str]:
        if not self.target.key:
            return {}
        return {"Authorization": f"Bearer {self.target.key}", "x-api-key": self.target.key}

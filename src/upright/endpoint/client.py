"""A question -> an Answer, from any OpenAI-compatible server.

The raw response is kept whole: what a rule did not look at today may be the evidence of tomorrow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

from upright.errors import EndpointError, UnansweredError


@dataclass(frozen=True)
class Answer:
    """A completed chat request."""

    request: dict[str, Any]
    response: dict[str, Any]
    seconds: float

    @property
    def text(self) -> str:
        message = self._choice.get("message") or {}
        return str(message.get("content") or "")

    @property
    def finish_reason(self) -> str | None:
        reason = self._choice.get("finish_reason")
        return str(reason) if reason is not None else None

    @property
    def usage(self) -> dict[str, Any]:
        usage = self.response.get("usage")
        return usage if isinstance(usage, dict) else {}

    @property
    def _choice(self) -> dict[str, Any]:
        choices = self.response.get("choices")
        return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


class Endpoint:
    """A running server. The key travels in a header and appears in no message of ours."""

    def __init__(self, base_url: str, model: str, *, key: str | None = None, timeout_seconds: float = 120) -> None:
        self.base_url = base_url.rstrip("/")
        self.model = model
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # trust_env=False: a proxy meant for the internet must not see loopback traffic.
        self._http = httpx2.Client(base_url=self.base_url, headers=headers, timeout=timeout_seconds, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def healthy(self, path: str, *, timeout_seconds: float = 5) -> bool:
        try:
            return self._http.get(path, timeout=timeout_seconds).status_code == 200
        except httpx2.HTTPError:
            return False

    def models(self) -> list[str]:
        """The names that the server says it serves."""
        body = self.json("/v1/models")
        data = body.get("data")
        return [str(item.get("id")) for item in data if isinstance(item, dict)] if isinstance(data, list) else []

    def text(self, path: str) -> str:
        """What the server answers there, such as its metrics."""
        return self._send("GET", path).text

    def json(self, path: str) -> dict[str, Any]:
        """The object that the server answers there, such as llama.cpp's /props."""
        return self._json(self._send("GET", path))

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> Answer:
        request = {"model": self.model, "messages": messages, **options}
        started = time.monotonic()
        response = self._json(self._send("POST", "/v1/chat/completions", request))
        return Answer(request, response, time.monotonic() - started)

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx2.Response:
        try:
            response = self._http.request(method, path, json=body)
        except httpx2.TimeoutException:
            raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
        except httpx2.HTTPError as error:
            raise EndpointError(f"{self.base_url}{path} cannot be reached: {error}") from None
        if response.status_code != 200:
            raise EndpointError(
                f"{self.base_url}{path} answered HTTP {response.status_code}: {response.text[:200].strip()}",
                hint="the key is wrong or missing" if response.status_code in (401, 403) else None,
            )
        return response

    def _json(self, response: httpx2.Response) -> dict[str, Any]:
        try:
            body = response.json()
        except ValueError:
            raise EndpointError(f"{response.url} did not answer in JSON: {response.text[:200]!r}") from None
        if not isinstance(body, dict):
            raise EndpointError(f"{response.url} answered with {type(body).__name__}, not an object")
        return body

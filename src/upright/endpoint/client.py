"""A question -> an Answer, from any OpenAI-compatible server.

The raw response is kept whole: what a rule did not look at today may be the evidence of tomorrow.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

from upright.endpoint.address import plain_address
from upright.endpoint.streaming import Assembly
from upright.errors import EndpointError, UnansweredError


@dataclass(frozen=True)
class Answer:
    """A completed chat request."""

    request: dict[str, Any]
    response: dict[str, Any]
    seconds: float
    first_seconds: float | None = None
    """Until the first piece came; None if it was not streamed."""
    pieces_seconds: tuple[float, ...] = ()
    """When each streamed piece came, counted from the request."""

    @classmethod
    def of_text(cls, text: str, finish_reason: str, prompt_tokens: int, completion_tokens: int) -> Self:
        """As the guards look at it, where another program than this one did the asking."""
        choice = {"message": {"content": text}, "finish_reason": finish_reason}
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        return cls({}, {"choices": [choice], "usage": usage}, 0.0)

    @property
    def message(self) -> dict[str, Any]:
        message = self._choice.get("message")
        return message if isinstance(message, dict) else {}

    @property
    def text(self) -> str:
        return str(self.message.get("content") or "")

    @property
    def reasoning(self) -> str:
        """vLLM calls it `reasoning`, llama.cpp and SGLang `reasoning_content`."""
        return str(self.message.get("reasoning_content") or self.message.get("reasoning") or "")

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        calls = self.message.get("tool_calls")
        return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []

    @property
    def logprobs(self) -> list[dict[str, Any]] | None:
        """One entry a token; None if the server sent none."""
        given = self._choice.get("logprobs")
        content = given.get("content") if isinstance(given, dict) else None
        return [item for item in content if isinstance(item, dict)] if isinstance(content, list) else None

    @property
    def finish_reason(self) -> str | None:
        reason = self._choice.get("finish_reason")
        return str(reason) if reason is not None else None

    @property
    def usage(self) -> dict[str, Any]:
        usage = self.response.get("usage")
        return usage if isinstance(usage, dict) else {}

    @property
    def prompt_tokens(self) -> int | None:
        return _count(self.usage.get("prompt_tokens"))

    @property
    def completion_tokens(self) -> int | None:
        return _count(self.usage.get("completion_tokens"))

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that were not computed again; None if the server does not say."""
        details = self.usage.get("prompt_tokens_details")
        return _count(details.get("cached_tokens")) if isinstance(details, dict) else None

    @property
    def _choice(self) -> dict[str, Any]:
        choices = self.response.get("choices")
        return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


class Endpoint:
    """A running server. The key travels in a header and appears in no message of ours."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str | None = None,
        timeout_seconds: float = 120,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.base_url = plain_address(base_url).rstrip("/").removesuffix("/v1")
        self.model = model
        self.key = key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # trust_env=False: a proxy meant for the internet must not see loopback traffic.
        self._http = httpx2.Client(
            base_url=self.base_url, headers=headers, timeout=timeout_seconds, trust_env=False, transport=transport
        )
        self._timeout = timeout_seconds

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
        return [str(item.get("id")) for item in self.model_cards()]

    def model_cards(self) -> list[dict[str, Any]]:
        """What /v1/models says of each model."""
        data = self.json("/v1/models").get("data")
        return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []

    def json(self, path: str) -> dict[str, Any]:
        """The object that the server answers there, such as llama.cpp's /props."""
        return self._json(self._send("GET", path))

    def json_list(self, path: str) -> list[Any]:
        """As llama.cpp's /slots answers."""
        body = self._decoded(self._send("GET", path))
        return body if isinstance(body, list) else []

    def text(self, path: str) -> str:
        """What the server answers there, such as its metrics."""
        return self._send("GET", path).text

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._json(self._send("POST", path, body))

    def chat(self, messages: list[dict[str, Any]], *, timeout_seconds: float | None = None, **options: Any) -> Answer:
        request = {"model": self.model, "messages": messages, **options}
        started = time.monotonic()
        response = self._json(self._send("POST", "/v1/chat/completions", request, timeout_seconds))
        return Answer(request, response, time.monotonic() - started)

    def stream(self, messages: list[dict[str, Any]], *, timeout_seconds: float | None = None, **options: Any) -> Answer:
        """The same answer in pieces, put together again; a stream that ends too early has no finish_reason."""
        asked = {"stream": True, "stream_options": {"include_usage": True}}
        request = {"model": self.model, "messages": messages, **asked, **options}
        path, whole = "/v1/chat/completions", Assembly()
        pieces: list[float] = []
        started = time.monotonic()
        response = self._opened(path, request, timeout_seconds)
        try:
            if response.status_code != 200:
                response.read()
                raise self._refusal(path, response)
            pieces.extend(time.monotonic() - started for line in response.iter_lines() if whole.take(line))
        except httpx2.TimeoutException:
            raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
        except httpx2.HTTPError:
            whole.cut = True  # the connection ended inside the answer: it is judged as it is
        finally:
            response.close()
        seconds = time.monotonic() - started
        return Answer(request, whole.response(), seconds, pieces[0] if pieces else None, tuple(pieces))

    def hold(
        self, messages: list[dict[str, Any]], stop: threading.Event, begun: threading.Event, **options: Any
    ) -> None:
        """Stream an answer nobody reads, until `stop`: it keeps its place in the server. `begun` at the first piece,
        or when there will be none."""
        request = {"model": self.model, "messages": messages, "stream": True, **options}
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=request) as response:
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        begun.set()
                    if stop.is_set():
                        return
        except httpx2.HTTPError:
            pass  # how full the cache became is read elsewhere
        finally:
            begun.set()

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout_seconds: float | None = None
    ) -> httpx2.Response:
        response = self._answered(path, method, body, timeout_seconds, stream=False)
        if response.status_code != 200:
            raise self._refusal(path, response)
        return response

    def exchange(self, path: str, body: dict[str, Any], *, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Status and text of whatever comes; with `headers` these instead of our own key."""
        request = self._http.build_request("POST", path, json=body, timeout=self._timeout)
        if headers is not None:
            request.headers.pop("Authorization", None)
            request.headers.update(headers)
        response = self._sent(path, request, stream=False)
        return response.status_code, response.text

    def local_port(self, path: str, body: dict[str, Any]) -> int | None:
        """Our end of the connection that the question went over; None if that is not known."""
        stream = self._send("POST", path, body).extensions.get("network_stream")
        address = stream.get_extra_info("client_addr") if stream is not None else None
        return int(address[1]) if address else None

    def raw_lines(self, path: str, body: dict[str, Any]) -> list[str]:
        """A stream's own lines, as they came."""
        response = self._opened(path, body, None)
        try:
            if response.status_code != 200:
                response.read()
                raise self._refusal(path, response)
            return list(response.iter_lines())
        except httpx2.TimeoutException:
            raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
        except httpx2.HTTPError as error:
            raise EndpointError(f"{self.base_url}{path} ended inside its answer: {error}") from None
        finally:
            response.close()

    def _opened(self, path: str, body: dict[str, Any], timeout_seconds: float | None) -> httpx2.Response:
        return self._answered(path, "POST", body, timeout_seconds, stream=True)

    def _answered(
        self, path: str, method: str, body: dict[str, Any] | None, timeout_seconds: float | None, *, stream: bool
    ) -> httpx2.Response:
        request = self._http.build_request(method, path, json=body, timeout=timeout_seconds or self._timeout)
        return self._sent(path, request, stream=stream)

    def _sent(self, path: str, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        """Asked again once if a connection that was kept open turns out to be closed: servers close idle ones."""
        for last in (False, True):
            try:
                return self._http.send(request, stream=stream)
            except httpx2.TimeoutException:
                raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                if last:
                    raise self._unreachable(path, error) from None
            except httpx2.HTTPError as error:
                raise self._unreachable(path, error) from None
        raise AssertionError("the second try returns or raises")

    def _unreachable(self, path: str, error: Exception) -> EndpointError:
        return EndpointError(
            f"{self.base_url}{path} cannot be reached: {error}",
            hint="is a server running at that address? upright ps lists those of ours",
        )

    def _refusal(self, path: str, response: httpx2.Response) -> EndpointError:
        return EndpointError(
            f"{self.base_url}{path} answered HTTP {response.status_code}: {response.text[:200].strip()}",
            hint="the key is wrong or missing" if response.status_code in (401, 403) else None,
            status=response.status_code,
        )

    def _json(self, response: httpx2.Response) -> dict[str, Any]:
        body = self._decoded(response)
        if not isinstance(body, dict):
            raise EndpointError(f"{response.url} answered with {type(body).__name__}, not an object")
        return body

    def _decoded(self, response: httpx2.Response) -> Any:
        try:
            return json.loads(response.content.decode("utf-8", "replace"))  # broken bytes are for the guards to see
        except ValueError:
            raise EndpointError(f"{response.url} did not answer in JSON: {response.text[:200]!r}") from None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""A client of any OpenAI-compatible server: sends chat requests and returns their answers.

The raw response is kept whole: what a rule did not look at today may be the evidence of tomorrow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

from upright.base import bounds
from upright.base.errors import EndpointError, UnansweredError
from upright.base.untrusted_text import on_one_line
from upright.engines import ENGINES
from upright.serving.endpoint.address import without_credentials
from upright.serving.endpoint.streaming import Assembly

_CHAT = "/v1/chat/completions"
_MOST_LINES = 200_000
_LOOK_SECONDS = 10.0
"""Between two looks at the engine's tokens."""
_LONGEST_SERVER_NAME = 80
_LONGEST_HOLD_SECONDS = 24 * 3600.0


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
        return [entry for entry in content if isinstance(entry, dict)] if isinstance(content, list) else None

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
        return bounds.checked_count(self.usage.get("prompt_tokens"))

    @property
    def completion_tokens(self) -> int | None:
        return bounds.checked_count(self.usage.get("completion_tokens"))

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that were not computed again; None if the server does not say."""
        details = self.usage.get("prompt_tokens_details")
        return bounds.checked_count(details.get("cached_tokens")) if isinstance(details, dict) else None

    @property
    def _choice(self) -> dict[str, Any]:
        choices = self.response.get("choices")
        return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


@dataclass(frozen=True)
class _Reply:
    """A whole response that was short enough."""

    url: str
    status: int
    content: bytes
    local_port: int | None

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


class Endpoint:
    """A running server. The key travels in a header and appears in no message of ours.

    `timeout_seconds` is for a whole answer, or of one that is streamed for each piece of it; comments that keep a
    connection open are no pieces. Where it is `watched`, the engine's own count of tokens is looked at meanwhile: as
    long as it moves, a whole answer is waited for like a streamed one.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str | None = None,
        timeout_seconds: float = 120,
        transport: httpx2.BaseTransport | None = None,
        watched: bool = False,
    ) -> None:
        self.base_url = without_credentials(base_url).rstrip("/").removesuffix("/v1")
        self.model = model
        self.key = key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # trust_env=False: a proxy meant for the internet must not see loopback traffic.
        self._http = bounds.client(
            base_url=self.base_url, headers=headers, timeout=timeout_seconds, trust_env=False, transport=transport
        )
        self._transport = transport
        self._timeout = timeout_seconds
        self._watched = watched
        self.ends: float | None = None
        """No request goes on beyond this moment (monotonic), in whichever thread."""
        self.server: str | None = None
        """The `Server` header of its last answer."""
        self._shows_tokens: bool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def healthy(self, path: str, *, timeout_seconds: float = 5) -> bool:
        return self.health_status(path, timeout_seconds=timeout_seconds) == 200

    def health_status(self, path: str, *, timeout_seconds: float = 5) -> int | None:
        """What its health page answers; None if nothing does."""
        try:
            with (
                bounds.time_limit(timeout_seconds),
                self._http.stream("GET", path, timeout=timeout_seconds) as response,
            ):
                return response.status_code
        except httpx2.HTTPError:
            return None

    @property
    def names_what_is_loaded(self) -> bool:
        """Whether the model's name is an engine's own for whatever it loaded: what it lists is what it could load."""
        return any(self.model == engine.http.only_name for engine in ENGINES.values())

    def models(self) -> list[str]:
        """The names that the server says it serves."""
        return [str(card.get("id")) for card in self.model_cards()]

    def model_cards(self) -> list[dict[str, Any]]:
        """What /v1/models says of each model."""
        cards = self.json("/v1/models").get("data")
        return [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []

    def json(self, path: str) -> dict[str, Any]:
        """The object that the server answers there, such as llama.cpp's /props."""
        return self._json(self._whole("GET", path))

    def json_list(self, path: str) -> list[Any]:
        """As llama.cpp's /slots answers."""
        body = self._decoded(self._whole("GET", path))
        return body if isinstance(body, list) else []

    def text(self, path: str) -> str:
        """What the server answers there, such as its metrics."""
        return self._whole("GET", path).text

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._json(self._whole("POST", path, body))

    def chat(self, messages: list[dict[str, Any]], *, timeout_seconds: float | None = None, **options: Any) -> Answer:
        request = {"model": self.model, "messages": messages, **options}
        started = time.monotonic()
        reply = self._whole(
            "POST", _CHAT, request, timeout_seconds, most_bytes=bounds.answer_limit_bytes(_asked_tokens(request))
        )
        return Answer(request, self._json(reply), time.monotonic() - started)

    def stream(self, messages: list[dict[str, Any]], *, timeout_seconds: float | None = None, **options: Any) -> Answer:
        """The same answer in pieces, put together again; a stream that ends too early has no finish_reason."""
        asked = {"stream": True, "stream_options": {"include_usage": True}}
        request = {"model": self.model, "messages": messages, **asked, **options}
        whole, pieces = Assembly(), list[float]()
        patience = timeout_seconds or self._timeout
        started = time.monotonic()
        try:
            with self._lines(_CHAT, request, patience) as (lines, clock):
                for line in lines:
                    if whole.take(line.decode("utf-8", "replace")):
                        pieces.append(time.monotonic() - started)
                        clock.go_on(patience)
        except _CutError:
            whole.cut = True  # the connection ended inside the answer: it is judged as it is
        if whole.stranger is not None and not whole.cut:
            raise EndpointError(f"{self.base_url}{_CHAT} sent no stream of events: {whole.stranger!r}")
        seconds = time.monotonic() - started
        return Answer(request, whole.response(), seconds, pieces[0] if pieces else None, tuple(pieces))

    def hold(
        self, messages: list[dict[str, Any]], stop: threading.Event, begun: threading.Event, **options: Any
    ) -> None:
        """Stream an answer nobody reads, until `stop`: it keeps its place in the server. `begun` at the first piece,
        or when there will be none."""
        request = {"model": self.model, "messages": messages, "stream": True, **options}
        try:
            with (
                bounds.time_limit(self._bounded(_LONGEST_HOLD_SECONDS), self._timeout) as clock,
                self._http.stream("POST", _CHAT, json=request) as response,
            ):
                for piece in bounds.raw_pieces(response):
                    if b"data:" in piece:
                        begun.set()
                        clock.go_on(self._timeout)
                    if stop.is_set():
                        return
        except (httpx2.HTTPError, bounds.ExceededError):
            pass  # how full the cache became is read elsewhere
        finally:
            begun.set()

    def exchange(self, path: str, body: dict[str, Any], *, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Status and text of whatever comes; with `headers` these instead of our own key."""
        request = self._http.build_request("POST", path, json=body, timeout=self._timeout)
        if headers is not None:
            request.headers.pop("Authorization", None)
            request.headers.update(headers)
        reply = self._reply(path, request, self._timeout, bounds.MOST_BYTES)
        return reply.status, reply.text

    def local_port(self, path: str, body: dict[str, Any]) -> int | None:
        """Our end of the connection that the question went over; None if that is not known."""
        return self._whole("POST", path, body).local_port

    def raw_lines(self, path: str, body: dict[str, Any], *, timeout_seconds: float | None = None) -> list[str]:
        """A stream's own lines, as they came."""
        kept, patience = list[str](), timeout_seconds or self._timeout
        try:
            with self._lines(path, body, patience) as (lines, clock):
                for line in lines:
                    kept.append(line.decode("utf-8", "replace"))
                    if len(kept) > _MOST_LINES:
                        raise self._beyond(path, bounds.ExceededError(f"sent more than {_MOST_LINES:,} lines"))
                    if line.startswith(b"data:"):
                        clock.go_on(patience)
        except _CutError as error:
            raise EndpointError(f"{self.base_url}{path} {error}") from None
        return kept

    @contextmanager
    def _lines(
        self, path: str, body: dict[str, Any], patience_seconds: float
    ) -> Iterator[tuple[Iterator[bytes], bounds.Deadline]]:
        """The lines of a stream that was not refused, and the clock that ends it."""
        longest = bounds.answer_limit_seconds(patience_seconds, _asked_tokens(body))
        request = self._http.build_request("POST", path, json=body, timeout=longest)
        longest = self._bounded(longest)
        with bounds.time_limit(longest, patience_seconds) as clock, self._watching(clock, patience_seconds):
            response = self._sent(path, request)
            try:
                if response.status_code != 200:
                    raise self._refusal(path, response.status_code, _start_of(response), response.headers)
                yield bounds.lines(response, bounds.answer_limit_bytes(_asked_tokens(body))), clock
            except httpx2.TimeoutException:
                raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
            except httpx2.HTTPError as error:
                raise _CutError(bounds.describe_failure(error)) from None
            except bounds.ExceededError as error:
                raise self._beyond(path, error) from None
            finally:
                response.close()

    def _whole(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout_seconds: float | None = None,
        *,
        most_bytes: int = bounds.MOST_BYTES,
    ) -> _Reply:
        timeout = timeout_seconds or self._timeout
        longest = bounds.answer_limit_seconds(timeout, _asked_tokens(body or {})) if self._watched and body else timeout
        request = self._http.build_request(method, path, json=body, timeout=longest)
        return self._reply(path, request, timeout, most_bytes, refuse=True, longest_seconds=longest)

    def _reply(
        self,
        path: str,
        request: httpx2.Request,
        timeout_seconds: float,
        most_bytes: int,
        *,
        refuse: bool = False,
        longest_seconds: float | None = None,
    ) -> _Reply:
        longest = self._bounded(longest_seconds or timeout_seconds)
        with (
            bounds.time_limit(longest, timeout_seconds) as clock,
            self._watching(clock, timeout_seconds) if longest > timeout_seconds else nullcontext(),
        ):
            response = self._sent(path, request)
            port = _local_port(response)
            try:
                if refuse and response.status_code != 200:
                    raise self._refusal(path, response.status_code, _start_of(response), response.headers)
                content = bounds.body(response, most_bytes)
            except httpx2.TimeoutException:
                raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
            except httpx2.HTTPError as error:
                raise EndpointError(f"{self.base_url}{path} {bounds.describe_failure(error)}") from None
            except bounds.ExceededError as error:
                raise self._beyond(path, error) from None
            finally:
                response.close()
        return _Reply(str(response.url), response.status_code, content, port)

    def _bounded(self, seconds: float) -> float:
        return seconds if self.ends is None else max(0.0, min(seconds, self.ends - time.monotonic()))

    @contextmanager
    def _watching(self, clock: bounds.Deadline, patience_seconds: float) -> Iterator[None]:
        """The clock goes on while the engine's tokens move."""
        if not self._watched:
            yield
            return
        over = threading.Event()
        pause = min(_LOOK_SECONDS, patience_seconds / 6)

        def watch() -> None:
            if over.wait(pause):
                return
            before: object = None
            with Endpoint(self.base_url, self.model, key=self.key, transport=self._transport) as beside:
                while True:  # a client of its own: this one may be closed while the thread looks
                    moved = beside._moved()
                    if before is not None and moved is not None and moved != before:
                        clock.go_on(patience_seconds)
                    before = moved if moved is not None else before
                    if over.wait(pause):
                        return

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    @property
    def shows_tokens(self) -> bool:
        """Whether an answer can be seen to come before it is whole."""
        if self._shows_tokens is None:
            self._shows_tokens = self._watched and self._moved() is not None
        return self._shows_tokens

    def _moved(self) -> object:
        """Tokens read and written so far, as the engine counts them; None if it does not say."""
        from upright.serving.endpoint.metrics import read_metrics
        from upright.serving.endpoint.slots import read_slots

        with suppress(EndpointError, TypeError, ValueError):
            return read_slots(self._decoded(self._whole("GET", "/slots", timeout_seconds=_LOOK_SECONDS)))
        with suppress(EndpointError):
            seen = read_metrics(self._whole("GET", "/metrics", timeout_seconds=_LOOK_SECONDS).text)
            return seen.prompt_tokens, seen.computed_tokens, seen.generation_tokens
        return None

    def _sent(self, path: str, request: httpx2.Request) -> httpx2.Response:
        """Asked again once if a connection that was kept open turns out to be closed: servers close idle ones."""
        for last in (False, True):
            try:
                response = self._http.send(request, stream=True)
            except httpx2.TimeoutException:
                raise UnansweredError(f"{self.base_url}{path} did not answer in time") from None
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                if last:
                    raise self._unreachable(path, error) from None
            except httpx2.HTTPError as error:
                raise self._unreachable(path, error) from None
            else:
                self.server = response.headers.get("server", "")[:_LONGEST_SERVER_NAME] or None
                return response
        raise AssertionError("the second try returns or raises")

    def _unreachable(self, path: str, error: Exception) -> EndpointError:
        return EndpointError(
            f"{self.base_url}{path} {bounds.describe_failure(error)}",
            hint="is a server running at that address? upright ps lists those of ours",
        )

    def _beyond(self, path: str, error: bounds.ExceededError) -> EndpointError:
        kind = UnansweredError if isinstance(error, bounds.OverdueError) else EndpointError
        return kind(f"{self.base_url}{path} {error}")

    def _refusal(self, path: str, status: int, text: str, headers: httpx2.Headers) -> EndpointError:
        hint = "the key is wrong or missing" if status in (401, 403) else None
        if 300 <= status < 400:
            hint = f"it sends us to {on_one_line(headers.get('location', 'nowhere'))}: name that address if it is right"
        return EndpointError(
            f"{self.base_url}{path} answered HTTP {status}: {on_one_line(text[:200])}", hint=hint, status=status
        )

    def _json(self, reply: _Reply) -> dict[str, Any]:
        body = self._decoded(reply)
        if not isinstance(body, dict):
            raise EndpointError(f"{reply.url} answered with {type(body).__name__}, not an object")
        return body

    def _decoded(self, reply: _Reply) -> Any:
        try:
            return bounds.parse_peer_json(reply.content)  # broken bytes are for the guards to see
        except bounds.ExceededError as error:
            raise EndpointError(f"{reply.url} {error}") from None
        except ValueError:
            words = f"{reply.url} did not answer in JSON: {reply.text[:200]!r}"
            raise EndpointError(words, status=reply.status) from None


class _CutError(Exception):
    """The connection ended inside a stream."""


def _asked_tokens(request: dict[str, Any]) -> int | None:
    """The longest answer that was asked for."""
    return bounds.checked_count(request.get("max_tokens") or request.get("max_completion_tokens"))


def _start_of(response: httpx2.Response) -> str:
    return bounds.first_bytes(response).decode("utf-8", "replace")


def _local_port(response: httpx2.Response) -> int | None:
    stream = response.extensions.get("network_stream")
    try:
        address = stream.get_extra_info("client_addr") if stream is not None else None
    except OSError:
        return None  # closed by the other side
    return int(address[1]) if address else None

"""An engine that is right alone and wrong among others, in one chosen way: scripted, or a proxy before a real one."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.scripted.engine import ScriptedEngine

Mixing = Literal["cross-talk", "stale prefix", "wrong slot", "one in 50"]
MIXINGS: tuple[Mixing, ...] = ("cross-talk", "stale prefix", "wrong slot", "one in 50")
_BLOCK = 400
"""Characters of a block of the cache: what two prompts share of it is reused."""
_OPEN_SECONDS = 0.3
_CONTENT = re.compile(rb'("content":\s?")([^"\\])')


@dataclass
class Mixer:
    """Mixes up requests from `over` in flight on."""

    mixing: Mixing | None = None
    over: int = 2
    rate: float = 0.1
    """Share of the answers under such load that are mixed up; with `one in 50` each fiftieth is garbled."""
    seed: int = 0
    mixed: int = 0
    crowded: int = 0
    """Answers under such load."""
    flying: list[dict[str, Any]] = field(default_factory=list)
    answered: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def request(self, body: dict[str, Any]) -> Iterator[None]:
        with self.lock:
            self.flying.append(body)
        try:
            yield
        finally:
            with self.lock:
                self.flying = [other for other in self.flying if other is not body]
                self.answered = [*self.answered[-40:], body]

    def instead(self, body: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """The request that is answered in its place, and whether the answer is garbled."""
        with self.lock:
            if self.mixing is None or len(self.flying) < self.over:
                return body, False
            self.crowded += 1
            if self.mixing == "one in 50":
                self.mixed += self.crowded % 50 == 0
                return body, self.crowded % 50 == 0
            chance = random.Random(f"{self.seed}/{self.crowded}")
            if chance.random() >= self.rate:
                return body, False
            other = self._other(body, chance)
            self.mixed += other is not body
            same = {name: body[name] for name in ("stream", "stream_options") if name in body}
            plain = {name: field for name, field in other.items() if name not in ("stream", "stream_options")}
            return (body if other is body else {**plain, **same}), False

    def _other(self, body: dict[str, Any], chance: random.Random) -> dict[str, Any]:
        if self.mixing == "stale prefix":
            return self._stale(body)
        others = self.answered[-1:] if self.mixing == "wrong slot" else self.flying
        return chance.choice([other for other in others if other is not body] or [body])

    def _stale(self, body: dict[str, Any]) -> dict[str, Any]:
        """The text of another prompt that begins with the same block, under this one's question."""
        own = str(body["messages"][-1]["content"])
        text, _, ask = own.rpartition("\n\n")
        for other in reversed((*self.answered, *self.flying)):
            before = str(other["messages"][-1]["content"]).rpartition("\n\n")[0]
            if len(text) > _BLOCK and before[:_BLOCK] == text[:_BLOCK] and before != text:
                return {**body, "messages": [{"role": "user", "content": f"{before}\n\n{ask}"}]}
        return body


@dataclass
class CrowdedEngine(ScriptedEngine):
    """Scripted, with requests mixed up."""

    mixer: Mixer = field(default_factory=Mixer)
    logprobs: bool = True

    def _chat(self, body: dict[str, Any]) -> tuple[int, bytes | None, str]:
        if not self.logprobs:
            body.pop("logprobs", None)
        with self.mixer.request(body), self._kept_open(body):
            return super()._chat(body)

    @contextmanager
    def _kept_open(self, body: dict[str, Any]) -> Iterator[None]:
        """An answer that goes on until its last token holds its part of the cache."""
        tokens = self.count(body) if body.get("ignore_eos") else 0
        with self._lock:
            self.held += tokens
        time.sleep(_OPEN_SECONDS if tokens else 0)
        try:
            yield
        finally:
            with self._lock:
                self.held -= tokens

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        other, garbled = self.mixer.instead(body)
        message = super()._message(other)
        text = str(message.get("content") or "")
        if not garbled:
            return message
        return {"role": "assistant", "content": f"#{text[1:]}" if text else "I cannot."}


@contextmanager
def mixing_proxy(url: str, mixer: Mixer) -> Iterator[str]:
    """Before a real engine; yields its address. An answer is handed on when it is whole."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._hand_on(Request(f"{url}{self.path}", headers=self._key()))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path != "/v1/chat/completions":
                return self._hand_on(self._request(body))
            with mixer.request(body):
                other, garbled = mixer.instead(body)
                return self._hand_on(self._request(other), garbled=garbled)

        def _request(self, body: dict[str, Any]) -> Request:
            headers = {"content-type": "application/json", **self._key()}
            return Request(f"{url}{self.path}", json.dumps(body).encode(), headers)

        def _key(self) -> dict[str, str]:
            key = self.headers["authorization"]
            return {"authorization": key} if key else {}

        def _hand_on(self, request: Request, *, garbled: bool = False) -> None:
            try:
                with urlopen(request, timeout=120) as response:
                    status, kind, content = response.status, response.headers["content-type"], response.read()
            except HTTPError as error:
                status, kind, content = error.code, error.headers["content-type"], error.read()
            content = _CONTENT.sub(rb"\1#", content, count=1) if garbled else content
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """A neighbour that hung up is no error."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

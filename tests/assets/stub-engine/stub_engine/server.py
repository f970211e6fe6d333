"""An OpenAI-compatible server that answers `Paris` to everybody."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = "version: 7 (abcdef1)"
WORDS = ("The", " capital", " of", " France", " is", " Paris", ".", " It", " lies", " on", " the", " Seine", ".")


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(VERSION)
        return
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    for name in ("--model", "--alias", "--key-file"):
        parser.add_argument(name, required=True)
    for name in ("--port", "--context"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()
    if options.version:  # everything was parsed, nothing is started
        print(VERSION)
        return
    if options.context > 1_000_000:
        sys.exit("stub: E4711 the context is longer than a stub's patience")
    key = Path(options.key_file).read_text().strip()
    print(f"stub: serving {options.model} on port {options.port}", flush=True)
    Server(("127.0.0.1", options.port), _handler(options.alias, key)).serve_forever()


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


def _handler(alias: str, key: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": alias, "object": "model", "owned_by": "stub"}]}
            self._json({"status": "ok"} if self.path == "/health" else models)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.headers.get("authorization") != f"Bearer {key}":
                self._json({"error": {"message": "no"}}, 401)
            elif self.path not in ("/v1/chat/completions", "/v1/completions"):
                self._json({"error": {"message": "no such page"}}, 404)
            elif request.get("stream"):
                self._stream(request)
            else:
                words = _said(request)
                message = {"role": "assistant", "content": "".join(words)}
                choice = {"index": 0, "message": message, "text": "".join(words), "finish_reason": _end(words)}
                self._json({"object": "chat.completion", "choices": [choice], "usage": _usage(request, words)})

        def _stream(self, request: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for event in _events(request):
                self.wfile.write(f"data: {event}\n\n".encode())
                self.wfile.flush()
            self.close_connection = True

        def _json(self, answer: dict[str, Any], status: int = 200) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _said(request: dict[str, Any]) -> list[str]:
    most = request.get("max_tokens") or request.get("max_completion_tokens") or len(WORDS)
    if not request.get("ignore_eos"):
        return list(WORDS[:most])
    return [WORDS[at % len(WORDS)] for at in range(most)]


def _events(request: dict[str, Any]) -> Iterator[str]:
    words = _said(request)
    for word in words:
        yield json.dumps({"choices": [{"index": 0, "delta": {"content": word}, "text": word, "finish_reason": None}]})
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": _end(words)}]})
    yield json.dumps({"choices": [], "usage": _usage(request, words)})
    yield "[DONE]"


def _end(words: list[str]) -> str:
    return "stop" if len(words) == len(WORDS) else "length"


def _usage(request: dict[str, Any], words: list[str]) -> dict[str, int]:
    texts = [str(message["content"]) for message in request.get("messages", ())] or [str(request.get("prompt", ""))]
    prompt = sum(len(text.split()) for text in texts)
    return {"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}

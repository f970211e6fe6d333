"""A prompt set -> an OpenAI-compatible server that answers it rightly, and is broken in one chosen way.

For what a real engine cannot do on cue. In-process as an httpx2 transport, or on a loopback port with `serving`.
"""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import httpx2

from upright.proof.ladder.prompts import Dialogue, PromptSet, Question

Kind = Literal[
    "loop", "flood", "nan", "cut", "no usage", "miscount", "truncate", "broken json", "broken arguments", "drift",
    "utf-8", "empty", "reasoning only", "leak", "no call", "garbage", "disconnect", "no finish", "other ids",
]  # fmt: skip

_WORD = re.compile(r"\w+|[^\w\s]")
_SPECIAL = "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"


@dataclass(frozen=True)
class Fault:
    """How it is broken, and when."""

    kind: Kind
    rate: float = 1.0
    """Share of the answers that are broken."""
    over_tokens: int = 0
    """Only for prompts longer than this."""
    over_usage: float = 0.0
    """Only with a cache fuller than this."""
    after_requests: int = 0
    """Only from this request on."""


@dataclass
class ScriptedEngine:
    """A right engine, or one with a fault."""

    prompts: PromptSet
    fault: Fault | None = None
    context_tokens: int = 4_096
    pool_tokens: int = 4_096
    """Tokens of its cache."""
    model: str = "tiny-kimi"
    seed: int = 0
    has_tokenizer: bool = True
    delay_seconds: float = 0.0
    """How long each answer takes."""
    requests: int = 0
    held: int = 0
    """Tokens of requests that others keep open."""
    busy: int = 0
    _before: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def transport(self) -> httpx2.MockTransport:
        def handler(request: httpx2.Request) -> httpx2.Response:
            body = json.loads(request.content) if request.content else {}
            status, content, kind = self.answer(request.method, request.url.path, body)
            if content is None:
                raise httpx2.RemoteProtocolError("the connection was closed")
            return httpx2.Response(status, content=content, headers={"content-type": kind})

        return httpx2.MockTransport(handler)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """On a loopback port; yields the address."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                self._reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def _reply(self, body: dict[str, Any]) -> None:
                status, content, kind = engine.answer(self.command, self.path, body)
                if content is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *words: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes | None, str]:
        """Status, content and its type; None for a connection that closes without a word."""
        if self.fault and self.fault.kind == "disconnect" and self.requests > self.fault.after_requests:
            return 200, None, ""  # gone for good
        if path == "/v1/models":
            card = {"id": self.model, "owned_by": "vllm", "max_model_len": self.context_tokens}
            return _json({"data": [card]})
        if path in ("/health", "/version"):
            return _json({"version": "scripted"})
        if path == "/metrics":
            usage = min(1.0, (self.busy + self.held) / self.pool_tokens)
            return (
                200,
                f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc {usage}\n".encode(),
                "text/plain",
            )
        if path == "/tokenize" and self.has_tokenizer and "messages" in body:
            return _json({"count": self.count(body)})
        if path != "/v1/chat/completions":
            return _json({"error": "no such address"}, 404)
        return self._chat(body)

    def count(self, body: dict[str, Any]) -> int:
        """A token is a word or a sign."""
        text = "".join(str(message.get("content") or "") for message in body["messages"])
        return 20 + len(_WORD.findall(text)) + len(_WORD.findall(json.dumps(body.get("tools") or "")))

    def _chat(self, body: dict[str, Any]) -> tuple[int, bytes | None, str]:
        with self._lock:
            self.requests += 1
            number = self.requests
            tokens = self.count(body)
            prefix = json.dumps(body["messages"])
            shared = len(_WORD.findall(_common(prefix, self._before)))
            self._before, self.busy = prefix, tokens
        time.sleep(self.delay_seconds)
        if tokens + body.get("max_tokens", 16) > self.context_tokens:
            return _json({"error": {"message": f"{tokens} tokens are too many", "type": "exceed_context"}}, 400)
        broken = self._is_broken(number, tokens)
        if broken == "disconnect":
            return 200, None, ""
        if broken == "truncate":
            body = {**body, "messages": [{**body["messages"][-1], "content": body["messages"][-1]["content"][-400:]}]}
            tokens = self.count(body)
        message = self._message(body)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        if broken is not None:
            message, finish = _break(broken, message, finish, random.Random(number))
        words = json.dumps(message, ensure_ascii=False)
        usage = {
            "prompt_tokens": tokens * 2 if broken == "miscount" else tokens,
            "completion_tokens": max(1, len(_WORD.findall(words))),
            "prompt_tokens_details": {"cached_tokens": min(shared, tokens - 1)},
        }
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
        if body.get("logprobs"):
            value = float("nan") if broken == "nan" else -0.01
            choice["logprobs"] = {"content": [{"token": "x", "logprob": value}]}
        response = {"choices": [choice], "usage": usage}
        if broken == "no usage":
            del response["usage"]
        if broken == "no finish":
            choice["finish_reason"] = None
        if body.get("stream"):
            return 200, _streamed(response, cut=broken == "cut"), "text/event-stream"
        if broken == "cut":
            choice["finish_reason"] = None
        content = json.dumps(response, ensure_ascii=False).encode()
        return 200, content.replace("\u00ff".encode(), b"\xff"), "application/json"

    def _is_broken(self, number: int, tokens: int) -> Kind | None:
        fault = self.fault
        if fault is None or tokens <= fault.over_tokens or number <= fault.after_requests:
            return None
        if (tokens + self.held) / self.pool_tokens <= fault.over_usage:
            return None
        return fault.kind if random.Random(f"{self.seed}/{number}").random() < fault.rate else None

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        asks = [message["content"] for message in messages if message["role"] == "user"]
        ask = asks[-1].rpartition("\n\n")[2]
        kwargs = body.get("chat_template_kwargs") or {}
        thought = {"reasoning_content": "I think about it."} if kwargs.get("thinking") else {}
        if self.prompts.task is not None and asks[-1] == self.prompts.task.ask:
            return {**self._task(messages), **thought}
        if self.prompts.endurance is not None and asks[-1] == self.prompts.endurance.ask:
            return {"role": "assistant", "content": self._long(), **thought}
        for dialogue in _dialogues(self.prompts):
            if dialogue.ask == ask and body.get("tools"):
                return {**self._dialogue(dialogue, messages, body), **thought}
        for question in _questions(self.prompts):
            if question.ask == ask:
                return {"role": "assistant", "content": question.sample, **thought}
        return {"role": "assistant", "content": self._needle(asks[-1], "\n\n".join(asks)), **thought}

    def _dialogue(self, dialogue: Dialogue, messages: list[Any], body: dict[str, Any]) -> dict[str, Any]:
        if messages[-1]["role"] == "tool" or not dialogue.calls or body.get("tool_choice") == "none":
            return {"role": "assistant", "content": dialogue.sample}
        calls = [_call(index, call.name, call.arguments) for index, call in enumerate(dialogue.calls)]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    def _needle(self, ask: str, text: str) -> str:
        needles = self.prompts.needles
        assert needles is not None
        asked = _pattern(needles.ask).search(ask)
        if asked is None:
            return "I do not know that."
        fact = re.search(_template(needles.fact, re.escape(asked["key"])), text)
        return fact["number"] if fact else "I do not know that."

    def _task(self, messages: list[Any]) -> dict[str, Any]:
        task = self.prompts.task
        assert task is not None
        done = sum(message["role"] == "tool" for message in messages)
        steps = [("list_files", {})] if "list_files" in task.tools else []
        steps += [("write_file", {"path": path, "content": text}) for path, text in task.sample.items()]
        if done >= len(steps):
            return {"role": "assistant", "content": "DONE"}
        return {"role": "assistant", "content": "", "tool_calls": [_call(0, *steps[done])]}

    def _long(self) -> str:
        endurance = self.prompts.endurance
        assert endurance is not None
        if endurance.rule == "counts":
            return ", ".join(map(str, range(endurance.expect["from"], endurance.expect["to"] + 1)))
        words = random.Random(5)
        fields = "\n".join(f"    field_{words.randrange(10**6)} = {words.randrange(10**9)}" for _ in range(180))
        return "```python\n" + "\n".join(f"class Model{number}:\n{fields}\n" for number in range(16)) + "```"


def _break(kind: Kind, message: dict[str, Any], finish: str, chance: random.Random) -> tuple[dict[str, Any], str]:
    text, calls = message.get("content") or "", message.get("tool_calls")
    if kind == "broken json":
        return ({**message, "content": text[:-1]}, finish) if text.startswith("{") else (message, finish)
    if kind == "broken arguments" and calls:
        call = calls[0]
        cut = {**call["function"], "arguments": call["function"]["arguments"][:-2]}
        return {**message, "tool_calls": [{**call, "function": cut}, *calls[1:]]}, finish
    if kind == "other ids" and calls:
        return {**message, "tool_calls": [{**call, "id": f"call_{chance.randrange(10**6)}"} for call in calls]}, finish
    if kind == "no call" and calls:
        return {"role": "assistant", "content": "I would have to look that up."}, "stop"
    said = {
        "loop": "the answer is that " * 60,
        "flood": "!" * 400,
        "drift": "这是一个关于巴黎的回答，天气很好，我们去公园散步吧。" * 2 + text,
        "utf-8": text + "\u00ff",
        "empty": "",
        "leak": _SPECIAL + text,
        "garbage": " ".join(chance.choice(("lorem", "of", "72", "quite", "zeta", "und")) for _ in range(20)),
        "reasoning only": "",
    }
    if kind not in said:
        return message, finish
    changed: dict[str, Any] = {"role": "assistant", "content": said[kind]}
    if kind == "reasoning only":
        changed["reasoning_content"] = text or "I thought about it."
    return changed, "length" if kind in ("loop", "flood") else "stop"


def _streamed(response: dict[str, Any], *, cut: bool) -> bytes:
    """A piece for each few characters, the usage at the end, [DONE]; half of that if it is cut."""
    choice = response["choices"][0]
    message, deltas = choice["message"], [{"role": "assistant", "content": None}]
    for name in ("reasoning_content", "content"):
        text = message.get(name) or ""
        deltas += [{name: text[start : start + 24]} for start in range(0, len(text), 24)]
    for index, call in enumerate(message.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": arguments[start : start + 5]}}]}
            for start in range(0, len(arguments), 5)
        ]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if "usage" in response:
        chunks.append({"choices": [], "usage": response["usage"]})
    if cut:
        chunks = chunks[: max(1, len(deltas) // 2)]
    lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
    return "".join([*lines, "" if cut else "data: [DONE]\n\n"]).encode().replace("\u00ff".encode(), b"\xff")


def _call(index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"functions.{name}:{index}", "type": "function", "function": function}


def _questions(prompts: PromptSet) -> Iterator[Question]:
    yield from prompts.smoke
    if prompts.needles is not None:
        yield from (row for row in prompts.needles.follow_ups if isinstance(row, Question))


def _dialogues(prompts: PromptSet) -> Iterator[Dialogue]:
    rows: list[Dialogue | None] = list(prompts.dialogues)
    if prompts.needles is not None:
        rows += [row for row in prompts.needles.follow_ups if isinstance(row, Dialogue)]
    for row in rows:
        while row is not None:
            yield row
            row = row.then


def _template(text: str, key: str) -> str:
    return re.escape(text).replace(r"\{key\}", key).replace(r"\{number\}", r"(?P<number>\d+)")


def _pattern(ask: str) -> re.Pattern[str]:
    return re.compile(_template(ask, r"(?P<key>[^?]+)"))


def _common(one: str, other: str) -> str:
    """Their common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return one[:low]


def _json(body: Any, status: int = 200) -> tuple[int, bytes, str]:
    return status, json.dumps(body).encode(), "application/json"

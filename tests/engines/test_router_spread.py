"""Agents that all begin alike, behind a real smg with the rendered flags: new tasks are spread, later turns stay."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.ports import free_port
from upright.facts.catalog import get
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.fleet import Fleet, FleetBox, Router
from upright.facts.records.plan import Goal, Use
from upright.flows.fleet.rendering import render_router

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]
BOXES, AGENTS = 3, 12


class AnsweringBox(BaseHTTPRequestHandler):
    """Answers every chat with one word, once nobody holds the answers back."""

    protocol_version = "HTTP/1.1"
    arrived = threading.Semaphore(0)
    answering = threading.Event()

    def do_GET(self) -> None:
        self._say({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.arrived.release()
        self.answering.wait(60)
        choice = {"index": 0, "message": {"role": "assistant", "content": "OK"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self._say(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        )

    def _say(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def routed(use: Use, folder: Path, smg: Path) -> Iterator[httpx2.Client]:
    """A client of a router in front of three boxes, as `fleet render` writes it."""
    with ExitStack() as stack:
        servers = [ThreadingHTTPServer(("127.0.0.1", 0), AnsweringBox) for _ in range(BOXES)]
        for server in servers:
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        fleet = Fleet(
            name="f", model="m", goal=Goal(use=use, users=AGENTS),
            boxes=tuple(
                FleetBox(name=f"b{number}", address="127.0.0.1", port=server.server_port)
                for number, server in enumerate(servers)
            ),
            router=Router(port=free_port(), metrics_port=free_port(), health_seconds=1),
        )  # fmt: skip
        made = render_router(fleet, "shell", folder=str(folder))
        for name in ("__main__.py", "workers.json"):
            (folder / name).write_text(made.files[name])
        for name in ("client", "worker", "admin"):
            (folder / f"{name}.key").write_text(f"sk-{name}")
        flags = [word for setting in made.recipe.arguments for word in (setting.name, setting.value) if word]
        log = stack.enter_context((folder / "log").open("w"))
        process = subprocess.Popen([smg.parent / "python", *flags], stdout=log, stderr=log)
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        client = stack.enter_context(
            httpx2.Client(
                base_url=f"http://127.0.0.1:{fleet.router.port}", trust_env=False, timeout=30,
                headers={"Authorization": "Bearer sk-client"},
            )
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not _all_there(client):
            assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        yield client


def _all_there(client: httpx2.Client) -> bool:
    try:
        reply = client.get("/workers", headers={"Authorization": "Bearer sk-admin"})
        return [worker["is_healthy"] for worker in reply.json()["workers"]] == [True] * BOXES
    except (httpx2.HTTPError, ValueError, KeyError):
        return False


def _boxes(client: httpx2.Client, talks: list[list[dict[str, str]]]) -> list[str]:
    """Who answers each: they ask one after the other, and all are being answered at once."""

    def ask(talk: list[dict[str, str]]) -> str:
        reply = client.post("/v1/chat/completions", json={"model": "m", "messages": talk, "max_tokens": 1})
        assert reply.status_code == 200, reply.text
        return str(reply.headers["x-smg-routed-worker-id"])

    AnsweringBox.answering.clear()
    with ThreadPoolExecutor(len(talks)) as pool:
        replies = []
        for talk in talks:
            replies.append(pool.submit(ask, talk))
            assert AnsweringBox.arrived.acquire(timeout=30)
        AnsweringBox.answering.set()
        return [reply.result() for reply in replies]


def _words(tokens: float, of: str) -> str:
    """About so many tokens that nobody else says."""
    return (f"{of} " * int(4 * tokens))[: int(4 * tokens)]


@pytest.mark.parametrize("use", ["coding-agent", "chat"])
def test_new_tasks_that_begin_alike_are_spread_over_the_boxes(use: Use, tmp_path: Path, smg: Path) -> None:
    """With a threshold of 0.5 they were 12, 0 and 0: what all share is more than half of a first turn."""
    row = get("usages", use)
    assert isinstance(row, UsageRow)
    shared, opening = row.shared_tokens.value or 0, row.opening_tokens.median or row.opening_tokens.value or 0
    system = {"role": "system", "content": _words(shared, "always")}
    with routed(use, tmp_path, smg) as client:
        talks = [[system, {"role": "user", "content": _words(opening, f"task {number}")}] for number in range(AGENTS)]
        first = _boxes(client, talks)
        assert list(Counter(first).values()) == [AGENTS // BOXES] * BOXES, Counter(first)
        if use == "chat":  # a second turn is mostly the answer before it, short, and read again anywhere
            return
        for talk, number in zip(talks, range(AGENTS), strict=True):
            talk.append({"role": "assistant", "content": _words(row.answer_tokens.median or 0, f"answer {number}")})
            talk.append({"role": "user", "content": _words(row.turn_tokens.median or 0, f"result {number}")})
        assert _boxes(client, talks) == first, "a turn stays where its conversation was read"

"""Agents that all begin alike, behind a real smg with the rendered flags: new tasks are spread, later turns stay.

Real engines behind it are sent a fiftieth of an agent's tokens, in the same proportions, as the simulation is.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.accuracy.four_engines import wait_for_engine
from tests.paced import paced_llama_server
from tests.ports import free_port
from upright.facts.catalog import get
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.fleet import Fleet, FleetBox, Router
from upright.facts.records.plan import Goal, Use
from upright.flows.fleet.rendering import render_router
from upright.planning.choosing.routing import router_policy
from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.simulation import simulate
from upright.planning.sizing.usage import Habit
from upright.planning.sizing.usage_figures import usage_figures, usage_of

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
def answering(use: Use, folder: Path, smg: Path) -> Iterator[httpx2.Client]:
    with ExitStack() as stack:
        servers = [ThreadingHTTPServer(("127.0.0.1", 0), AnsweringBox) for _ in range(BOXES)]
        for server in servers:
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        ports = [server.server_port for server in servers]
        yield stack.enter_context(routed(use, folder, smg, ports))


@contextmanager
def routed(
    use: Use, folder: Path, smg: Path, ports: Sequence[int], *, users: int = AGENTS, threshold: float | None = None
) -> Iterator[httpx2.Client]:
    """A client of a router in front of these boxes, as `fleet render` writes it."""
    fleet = Fleet(
        name="f", model="m", goal=Goal(use=use, users=users),
        boxes=tuple(
            FleetBox(name=f"b{number}", address="127.0.0.1", port=port) for number, port in enumerate(ports)
        ),
        router=Router(port=free_port(), metrics_port=free_port(), health_seconds=1, cache_threshold=threshold),
    )  # fmt: skip
    made = render_router(fleet, "shell", folder=str(folder))
    for name in ("__main__.py", "workers.json"):
        (folder / name).write_text(made.files[name])
    for name in ("client", "worker", "admin"):
        (folder / f"{name}.key").write_text(f"sk-{name}")
    flags = [word for setting in made.recipe.arguments for word in (setting.name, setting.value) if word]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("w"))
        process = subprocess.Popen([smg.parent / "python", *flags], stdout=log, stderr=log)
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        client = stack.enter_context(
            httpx2.Client(
                base_url=f"http://127.0.0.1:{fleet.router.port}", trust_env=False, timeout=240,
                headers={"Authorization": "Bearer sk-client"}, limits=httpx2.Limits(max_connections=100),
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
    with answering(use, tmp_path, smg) as client:
        talks = [[system, {"role": "user", "content": _words(opening, f"task {number}")}] for number in range(AGENTS)]
        first = _boxes(client, talks)
        assert list(Counter(first).values()) == [AGENTS // BOXES] * BOXES, Counter(first)
        if use == "chat":  # a second turn is mostly the answer before it, short, and read again anywhere
            return
        for talk, number in zip(talks, range(AGENTS), strict=True):
            talk.append({"role": "assistant", "content": _words(row.answer_tokens.median or 0, f"answer {number}")})
            talk.append({"role": "user", "content": _words(row.turn_tokens.median or 0, f"result {number}")})
        assert _boxes(client, talks) == first, "a turn stays where its conversation was read"


SCALE, TURNS = 0.02, 6


@dataclass(frozen=True)
class AgentsRun:
    """What some agents met."""

    shares: tuple[float, ...]
    """Of all turns, by box, the largest first."""
    most_conversations: float
    """The share of conversations that began on one box."""
    reused: float
    """Of prompt tokens, those that a cache still held."""

    def words(self) -> str:
        boxes = "/".join(f"{share:.0%}" for share in self.shares)
        return f"turns {boxes}, {self.most_conversations:.0%} began on one box, {self.reused:.1%} of prompts reused"


@contextmanager
def engines(server: Path, model: Path, folder: Path) -> Iterator[list[int]]:
    """Real engines whose steps take their time, so that requests meet; the key is the router's."""
    paced = paced_llama_server(server, folder, step_ms=10, token_ms=0.02)
    settings = ["-np", "32", "-c", "65536", "--kv-unified", "-b", "2048", "-ub", "2048", "--no-webui", "--api-key"]
    ports = [free_port() for _ in range(BOXES)]
    with ExitStack() as stack:
        for port in ports:
            log = stack.enter_context((folder / f"{port}.log").open("w"))
            words = [paced, "-m", model, "--alias", "m", *settings, "sk-worker", "--port", str(port)]
            process = subprocess.Popen(words, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        for port in ports:
            wait_for_engine(port)
        yield ports


def agents(client: httpx2.Client, count: int) -> AgentsRun:
    """Each asks TURNS times, one after the other, all at once."""
    row = get("usages", "coding-agent")
    assert isinstance(row, UsageRow)
    usage = usage_of(row, usage_figures(row, {}), 131_072)
    system = {"role": "system", "content": _words(SCALE * usage.shared_tokens, "always")}
    places: Counter[str] = Counter()
    firsts: list[str] = []
    prompts: list[tuple[int, int]] = []

    def talk(number: int) -> None:
        chance = random.Random(number)
        asked = usage.opening_tokens.draw(chance)
        messages = [system]
        for turn in range(TURNS):
            messages.append({"role": "user", "content": _words(SCALE * asked, f"{number} {turn}")})
            most = max(2, int(SCALE * usage.answer_tokens.draw(chance)))
            body = {"model": "m", "messages": messages, "max_tokens": most, "ignore_eos": True, "temperature": 0}
            reply = client.post("/v1/chat/completions", json=body)
            assert reply.status_code == 200, reply.text
            box, answer = str(reply.headers["x-smg-routed-worker-id"]), reply.json()
            places[box] += 1
            if not turn:
                firsts.append(box)
            told = answer["usage"]
            prompts.append((told["prompt_tokens"], told["prompt_tokens_details"]["cached_tokens"]))
            messages.append(answer["choices"][0]["message"] | {"role": "assistant"})
            asked = usage.turn_tokens.draw(chance)

    with ThreadPoolExecutor(count) as pool:
        for each in [pool.submit(talk, number) for number in range(count)]:
            each.result()
    return AgentsRun(
        tuple(sorted((turns / sum(places.values()) for turns in places.values()), reverse=True)),
        max(Counter(firsts).values()) / count,
        sum(cached for _, cached in prompts) / sum(prompt for prompt, _ in prompts),
    )


def simulated(count: int) -> AgentsRun:
    """By the simulation that `fleet size` asks. What a tiny model says is other tokens when it is read."""
    row = get("usages", "coding-agent")
    assert isinstance(row, UsageRow)
    usage = usage_of(row, usage_figures(row, {}), 131_072)
    short = replace(
        usage, turns=Habit(TURNS), tool_seconds=Habit(0), thinking_seconds=Habit(0), turns_a_request=1.0,
        shared_tokens=int(SCALE * usage.shared_tokens), opening_tokens=Habit(SCALE * usage.opening_tokens.mean),
        turn_tokens=scaled(usage.turn_tokens), answer_tokens=scaled(usage.answer_tokens),
        answers_stay=False,
    )  # fmt: skip
    service = Service(((1, 0.01),), 2e-5, 2048, 131_072, 32)
    setting = SimulationSetting(
        service, short, BOXES, 0, 10_000.0, trace=tuple((0.001 * number, 0) for number in range(count)),
        router=router_policy("coding-agent", count),
    )  # fmt: skip
    seen = simulate(setting)
    turns = sum(seen.sent_by_box.values())
    shares = tuple(sorted((seen.sent_by_box[box] / turns for box in range(BOXES)), reverse=True))
    return AgentsRun(shares, shares[0], seen.reused or 0.0)


def scaled(habit: Habit) -> Habit:
    return Habit(SCALE * habit.mean, habit.sigma, SCALE * habit.most)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [12, 30])
def test_agents_on_real_engines_are_spread_as_the_simulation_has_it(
    count: int, tmp_path: Path, smg: Path, llama_server: Path, tiny_model: Path
) -> None:
    seen = {}
    for threshold in (None, 0.5):
        folder = tmp_path / str(threshold)
        folder.mkdir()
        with (
            engines(llama_server, tiny_model, folder) as ports,
            routed("coding-agent", folder, smg, ports, users=count, threshold=threshold) as client,
        ):
            seen[threshold] = agents(client, count)
    ours, half, told = seen[None], seen[0.5], simulated(count)
    print(f"\n{count} agents: {ours.words()}\nat 0.5: {half.words()}\nsimulated: {told.words()}")
    assert ours.most_conversations <= 0.5
    assert ours.reused >= 0.9 * half.reused
    assert told.shares[0] == pytest.approx(ours.shares[0], rel=0.15)

"""Four real llama-servers behind a real smg on loopback: keys, a death under load, rolls, a broken recipe.

One fleet for all tests of this file, in this order: it is started, used, rolled and ended as a person would.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.command import command
from tests.conftest import TINY_MODEL
from tests.engines.streams import Streams
from tests.engines.test_line import answer, left_running
from tests.ports import free_port
from upright.facts.catalog.recorded_flags import recorded_flags
from upright.proof.benchmark.load.apis import LoadTarget
from upright.proof.benchmark.load.generator import run as run_load
from upright.proof.benchmark.load.requests import Arrivals, Request
from upright.proof.benchmark.load.tally import StreamTally
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import read_metrics

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]  # a loaded machine is no bug

FLEET = """record: fleet
schema: 1
name: four
model: {model}
goal: {{context_tokens: 1024, users: 16}}
boxes:
  - {{name: a, port: {ports[0]}}}
  - {{name: b, port: {ports[1]}}}
  - {{name: c, port: {ports[2]}}}
  - {{name: d, port: {ports[3]}}}
router: {{port: {ports[4]}, metrics_port: {ports[5]}, health_seconds: 1}}
"""
CHAT = {"model": "tiny-kimi", "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 4}


class Four:
    """The fleet as its user has it."""

    def __init__(self, folder: Path, smg: Path, llama_server: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.ports = [free_port() for _ in range(6)]
        self.file = folder / "fleet.yaml"
        self.file.write_text(FLEET.format(model=TINY_MODEL, ports=self.ports))
        self.environment = {
            **os.environ,
            "UPRIGHT_HOME": str(self.home),
            "UPRIGHT_SMG": str(smg),
            "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
            "NO_COLOR": "1",
        }
        self.router = f"http://127.0.0.1:{self.ports[4]}"

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [*command(), "fleet", *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=500, env=self.environment, cwd=self.folder)

    def key(self, name: str) -> str:
        return (self.home / f"fleets/four/{name}.key").read_text().strip()

    def boxes(self) -> dict[str, dict[str, Any]]:
        return {each["box"]: each for each in json.loads(self("status", "four", "--json").stdout)["boxes"]}

    def deployment(self, box: str) -> dict[str, Any]:
        return dict(json.loads((self.home / f"deployments/four-{box}/deployment.json").read_text()))

    def running(self, box: str) -> float:
        """Requests that its engine works on, as it says itself."""
        with Endpoint(f"http://127.0.0.1:{self.port(box)}", "tiny-kimi", key=self.key("worker")) as engine:
            return read_metrics(engine.text("/metrics")).running or 0

    def streams(self, **more: Any) -> Streams:
        return Streams(self.ports[4], self.key("client"), "tiny-kimi", **more)

    def port(self, box: str) -> str:
        return str(self.ports["abcd".index(box)])


@pytest.fixture(scope="module")
def four(tmp_path_factory, smg: Path, llama_server: Path) -> Iterator[Four]:
    made = Four(tmp_path_factory.mktemp("four"), smg, llama_server)
    try:
        up = made("up", "--json")
        assert up.returncode == 0, up.stderr
        made.up = json.loads(up.stdout)  # type: ignore[attr-defined]
        yield made
    finally:
        down = made("down", "four", "--json")
        ended = {item["state"] for item in json.loads(down.stdout or "[]")}
        assert left_running(made.folder) == []
    assert ended == {"stopped"}, down.stderr


def test_the_recorded_flags_are_those_of_the_real_smg(smg: Path):
    script = (
        "import argparse\nfrom smg.router_args import RouterArgs\np = argparse.ArgumentParser()\n"
        "RouterArgs.add_cli_args(p, use_router_prefix=False)\n"
        "print(*sorted({o for a in p._actions for o in a.option_strings if o.startswith('--')}))"
    )
    said = subprocess.run([smg.parent / "python", "-c", script], capture_output=True, text=True, check=True).stdout
    recorded = recorded_flags("smg", "1.13.0")
    assert recorded is not None
    assert set(said.split()) == recorded.flags


def test_up_proves_it_through_the_router(four: Four):
    up = four.up  # type: ignore[attr-defined]
    assert up["well"]
    assert up["router"]["answers"]
    assert [(box["box"], box["state"], box["router"]) for box in up["boxes"]] == [
        (name, "ready", "ready") for name in "abcd"
    ]
    rungs = {item["rung"] for item in up["proof"]["observations"]}
    assert rungs == {"smoke", "clients"}
    assert four("up").returncode == 0, "what runs is left alone"


def test_keys_are_three_and_each_opens_one_door(four: Four):
    client, worker, admin = (four.key(name) for name in ("client", "worker", "admin"))
    assert len({client, worker, admin}) == 3

    # One for all, since each loads the certificates of the world anew; but a connection for each question: smg may
    # close one on which it refused a body that it had not read.
    http = httpx2.Client(timeout=60, trust_env=False, headers={"Connection": "close"})

    def asked(method: str, url: str, key: str | None, body: Any = None, header: str = "Authorization") -> int:
        headers = {} if key is None else {header: f"Bearer {key}" if header == "Authorization" else key}
        return http.request(method, url, headers=headers, json=body).status_code

    def chat(url: str, key: str | None, header: str = "Authorization") -> int:
        return asked("POST", f"{url}/v1/chat/completions", key, CHAT, header)

    assert chat(four.router, None) == 401
    assert chat(four.router, "sk-upright-wrong") == 401
    assert chat(four.router, client[:-1]) == 401
    assert chat(four.router, admin) == 401
    assert chat(four.router, client) == 200
    assert chat(four.router, client, "x-api-key") == 200, "as Anthropic's clients send it"
    for path in ("/v1/messages", "/v1/completions", "/v1/responses", "/generate", "/v1/embeddings"):
        assert asked("POST", f"{four.router}{path}", None, CHAT) == 401, path

    stranger = {"url": "http://127.0.0.1:1", "api_key": "x"}
    for key in (None, client, worker, "sk-upright-wrong"):
        assert asked("GET", f"{four.router}/workers", key) == 401
        assert asked("POST", f"{four.router}/workers", key, stranger) == 401
        assert asked("POST", f"{four.router}/wasm", key, {"modules": []}) == 401
        assert asked("POST", f"{four.router}/flush_cache", key, {}) == 401
    listed = http.get(f"{four.router}/workers", headers={"Authorization": f"Bearer {admin}"})
    assert listed.json()["total"] == 4
    assert worker not in listed.text

    for port in four.ports[:4]:  # an engine answers the router's key alone, and the clients' is not it
        engine = f"http://127.0.0.1:{port}"
        assert chat(engine, None) == 401
        assert chat(engine, client) == 401
        assert chat(engine, admin) == 401
        assert chat(engine, worker) == 200
    http.close()


def test_engines_listen_where_only_this_machine_gets(four: Four):
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout.split("\n")
    for port in four.ports:
        here = [line.split()[3] for line in listening if line.split()[3:4] and line.split()[3].endswith(f":{port}")]
        assert here == [f"127.0.0.1:{port}"]


def test_no_key_can_be_seen(four: Four):
    keys = [four.key(name) for name in ("client", "worker", "admin")]
    words = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    assert not any(key.encode() in words for key in keys)
    owned = {"key", "client.key", "worker.key", "admin.key", "key.yaml"}
    files = [path for path in four.home.rglob("*") if path.is_file() and path.name not in owned]
    assert any(path.name == "engine.log" for path in files)
    assert [path for path in files if any(key in path.read_text(errors="replace") for key in keys)] == []
    with httpx2.Client(base_url=four.router, trust_env=False, timeout=30) as http:
        http.headers["Authorization"] = f"Bearer {keys[0]}"
        replies = [http.post("/v1/chat/completions", json=CHAT), http.get("/v1/models"), http.get("/get_server_info")]
        replies += [http.get("/engine_metrics"), http.get("/loads"), http.get("/readiness"), http.get("/workers")]
        replies.append(http.get(f"http://127.0.0.1:{four.ports[5]}/metrics"))
    for reply in replies:
        shown = reply.text + str(reply.headers)
        assert not any(key in shown for key in keys), reply.url


@pytest.mark.slow
def test_through_the_router_against_direct(four: Four, capsys: pytest.CaptureFixture[str]):
    """One stream at a time, turn about: through the router no more boxes work at once than without it."""
    found: dict[str, list[tuple[float, float]]] = {"direct": [], "routed": []}
    for number in range(3):
        found["direct"].append(_load(f"http://127.0.0.1:{four.port('a')}", four.key("worker"), f"d{number}"))
        found["routed"].append(_load(four.router, four.key("client"), f"r{number}"))
    ttft = {name: min(each[0] for each in cells) for name, cells in found.items()}  # the least disturbed of three
    rate = {name: max(each[1] for each in cells) for name, cells in found.items()}
    with capsys.disabled():
        print(
            f"\nthrough smg against direct: TTFT x{ttft['routed'] / ttft['direct']:.2f} "
            f"({ttft['direct'] * 1000:.1f} -> {ttft['routed'] * 1000:.1f} ms), "
            f"throughput x{rate['routed'] / rate['direct']:.2f}"
        )
    assert rate["routed"] > 0.05 * rate["direct"], "it carries a load; how much is printed, a busy machine decides it"


def test_a_death_under_load_cuts_its_own_streams_alone(four: Four, capsys: pytest.CaptureFixture[str]):
    before = four.deployment("b")
    with four.streams(tokens=400) as load:
        load.until(lambda: len({each.box for each in load.ended()}) == 4, "every box serves")
        end_amid_streams(load, four.port("b"), before["process"]["pid"])
        killed = time.monotonic()
        load.until(
            lambda: any(each.box == four.port("b") and each.began > killed and not each.fault for each in load.ended()),
            "it gets traffic again", seconds=90,
        )  # fmt: skip
        back = time.monotonic()
    cut = load.faults()
    assert len(cut) >= 4, "a stream that was cut is a fault"
    assert all(each.box == four.port("b") and each.began < killed for each in cut), load.summary()
    lying = [each for each in cut if each.done]
    good = len([each for each in load.ended() if each.fault is None])
    with capsys.disabled():
        print(
            f"\nkill -9 under 64 streams: {len(cut)} cut, {len(lying)} of them with a clean [DONE]; "
            f"{good} others good, 0 failed; traffic again after {back - killed:.1f} s"
        )
    assert four.deployment("b")["restarts"] == before["restarts"] + 1


def end_amid_streams(load: Streams, box: str, pid: int) -> None:
    """What a client still reads, a quick engine may have finished long before. So it is held still until all that it
    had sent has come; streams that have not ended by then never will."""
    deadline = time.monotonic() + 60
    while True:
        os.kill(pid, signal.SIGSTOP)
        if load.settled(box) >= 4:
            return end(pid)
        os.kill(pid, signal.SIGCONT)
        assert time.monotonic() < deadline, f"never four streams at once; {load.summary()}"
        time.sleep(0.1)


def end(pid: int) -> None:
    """It is gone when this returns. A busy machine takes its time between the signal and the end, and until then the
    engine still takes connections, whose streams it cuts as well."""
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    ended, _, _ = select.select([process], [], [], 30)
    os.close(process)
    assert ended, "a process that was killed goes on"


@pytest.mark.slow
def test_the_load_generator_counts_what_was_cut(four: Four):
    """smg ends a cut stream with an error event and a clean [DONE]; the generator takes that for what it is."""
    target = LoadTarget(four.router, "tiny-kimi", key=four.key("client"), extra=(("ignore_eos", True),))
    source, cut = _Endless(target, "g", tokens=400), threading.Event()

    def kill() -> None:
        """Beside the load, which goes on meanwhile. A box whose streams have not begun, or just ended, cuts none."""
        for box in "abcd":
            while four.running(box) < 4:
                time.sleep(0.02)
            os.kill(four.deployment(box)["process"]["pid"], signal.SIGKILL)
            if cut.wait(10):
                break
        source.left = 32

    def on_tick(tally: StreamTally, in_flight: int) -> None:
        if tally.errors:
            cut.set()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    tally, _ = run_load(target, source, Arrivals(concurrency=32, seconds=100), on_tick=on_tick)
    killer.join(10)
    assert source.left == 0, "it was killed, and the load went on"
    assert set(tally.errors) <= {"error event", "cut", "no finish_reason"}, tally.error_samples
    assert sum(tally.errors.values()) >= 1
    assert tally.succeeded + sum(tally.errors.values()) == tally.sent


@pytest.mark.slow
def test_a_roll_of_all_four_under_load_loses_nothing(four: Four, capsys: pytest.CaptureFixture[str]):
    four.file.write_text(four.file.read_text().replace("users: 16", "users: 12"))
    before = {name: each["recipe"] for name, each in four.boxes().items()}
    with four.streams(tokens=60, pause_seconds=1) as load:
        load.until(lambda: len(load.ended()) > 64, "it runs")
        began = time.monotonic()
        rolled = four("roll", "--json")
        seconds = time.monotonic() - began
    roll = answer(rolled)
    assert roll["outcome"] == "done"
    assert [(step["box"], step["phase"]) for step in roll["steps"]] == [(name, "done") for name in "abcd"]
    assert load.faults() == [], load.summary()
    after = four.boxes()
    assert all(after[name]["recipe"] != before[name] and after[name]["router"] == "ready" for name in "abcd")
    with capsys.disabled():
        print(f"\na roll of four boxes under 64 streams: {seconds:.0f} s, {len(load.ended())} streams, 0 failed")


@pytest.mark.slow
def test_a_broken_recipe_stops_at_the_first_box_and_steps_back(four: Four):
    text = four.file.read_text()
    shown = answer(four("plan", "--json"))[0]["recipe"]
    shown.pop("digest")
    for setting in shown["arguments"]:
        if setting["name"] == "--ctx-size":
            setting["name"] = "--no-such-flag"
    (four.folder / "broken.json").write_text(json.dumps(shown))
    four.file.write_text(text.replace("{name: a, ", "{name: a, recipe: broken.json, "))
    before = four.boxes()
    try:
        with four.streams(count=16, pause_seconds=1) as load:
            load.until(lambda: len(load.ended()) > 16, "it runs")
            rolled = four("roll", "--json")
        assert rolled.returncode == 1, rolled.stderr
        roll = json.loads(rolled.stdout)
        assert (roll["outcome"], [step["box"] for step in roll["steps"]]) == ("stopped", ["a"])
        assert roll["steps"][0]["phase"] == "stepped back"
        assert "a failed with the new recipe and has its old one again: " in roll["reason"]
        assert "stepping back" in rolled.stderr
        assert load.faults() == [], load.summary()
    finally:
        four.file.write_text(text)
    after = four.boxes()
    assert {name: each["recipe"] for name, each in after.items()} == {n: each["recipe"] for n, each in before.items()}
    assert all(each["router"] == "ready" for each in after.values())
    assert "the last roll was stopped: a failed" in four("status", "four").stderr


@pytest.mark.slow
def test_a_roll_that_was_killed_goes_on(four: Four):
    argv = [sys.executable, "-m", "upright", "fleet", "roll", "--again"]
    rolling = subprocess.Popen(
        argv, env=four.environment, cwd=four.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert rolling.stderr is not None
    for line in rolling.stderr:
        if line.startswith("a: restarting"):
            break
    rolling.send_signal(signal.SIGKILL)
    rolling.wait(20)
    rolling.stderr.close()
    told = four("status", "four")
    assert told.returncode == 1
    assert "a roll is interrupted at a, restarting" in told.stderr
    assert "draining" in told.stdout or "off the list" in told.stdout
    again = four("roll", "--json")
    roll = answer(again)
    assert "going on with the roll that was interrupted" in again.stderr
    assert roll["outcome"] == "done"
    assert {step["box"]: step["phase"] for step in roll["steps"]} == {"a": "done"}
    assert four("status", "four").returncode == 0
    argv = [*command(), "store", "check"]
    checked = subprocess.run(argv, capture_output=True, text=True, env=four.environment)
    assert checked.returncode == 0, checked.stdout


class _Endless:
    """New questions for ever, or so many more."""

    def __init__(self, target: LoadTarget, name: str, tokens: int = 40) -> None:
        self.target, self.name, self.tokens, self.number = target, name, tokens, 0
        self.left: int | None = None

    def first(self) -> Request | None:
        if self.left == 0:
            return None
        self.left = None if self.left is None else self.left - 1
        self.number += 1
        words = f"{self.name}{self.number}: tell me about the number {self.name}{self.number}."
        return Request(self.target.request([{"role": "user", "content": words}], self.tokens), None)

    def following(self, request: Request, answer: str) -> Request | None:
        return None


def _load(url: str, key: str, name: str) -> tuple[float, float]:
    """Median TTFT and tokens a second of one stream after the other."""
    target = LoadTarget(url, "tiny-kimi", key=key)
    tally, _ = run_load(target, _Endless(target, name), Arrivals(concurrency=1, seconds=1.5))
    assert not tally.errors, tally.error_samples
    return statistics.median(tally.ttft), sum(tally.output) / tally.seconds

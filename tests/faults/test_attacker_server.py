"""A server: whatever answers at an address that `prove`, `bench`, `top`, `read` or `fetch` was given.

Each behaviour is met by every client of ours at once. Patience is short with what only patience ends, so that it is
seen to end; with the rest it is long, so that bytes and not a busy machine decide what is said.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.hostile_server import BEHAVIOURS, hostile
from upright.base.errors import UprightError
from upright.models.reading.hub import Hub, HubConnection, RemoteBlob, Repository, Traffic
from upright.proof.benchmark.load import Arrivals, LoadTarget, run
from upright.proof.benchmark.metrics_sampler import Sampler
from upright.proof.benchmark.selftest import Repeated
from upright.proof.benchmark.server import Server
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import read_metrics

pytestmark = pytest.mark.timeout(120)
NOT_PROMISED = (
    "that an answer within all bounds is true: rungs and guards judge that",
    "more than the key of the very request: whoever is asked with a key has it",
)
SHORT_PATIENCE_SECONDS, LONG_PATIENCE_SECONDS = 0.3, 20.0
LONGEST_SECONDS = 30.0
"""Of the slowest client: 13.9 s for one who is sent small pieces without end, beside six busy loops on two cores."""
MOST_MEMORY_BYTES = 200_000_000
"""All clients and the server together; one endless line took 676 MB before there were bounds."""
TELLING_ITS_PEAK = """
import atexit, runpy, sys
atexit.register(lambda: print(open("/proc/self/status").read(), file=sys.stderr))
runpy.run_module("upright", run_name="__main__", alter_sys=True)
"""
"""A child's ru_maxrss begins with the size of the process that forked it; this is of the command alone."""
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
Client = Callable[[str, float], object]


def json_page(url: str, patience: float) -> object:
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        return endpoint.models()


def answer(url: str, patience: float) -> object:
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        return endpoint.chat(QUESTION, max_tokens=16).text


def streamed(url: str, patience: float) -> object:
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        return endpoint.stream(QUESTION, max_tokens=16).response


def raw_lines(url: str, patience: float) -> object:
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        return len(endpoint.raw_lines("/v1/messages", {"max_tokens": 16}))


def metrics(url: str, patience: float) -> object:
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        return read_metrics(endpoint.text("/metrics"))


def health(url: str, patience: float) -> object:
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        return endpoint.healthy("/health", timeout_seconds=patience)


def held(url: str, patience: float) -> object:
    stop, begun = threading.Event(), threading.Event()
    with Endpoint(url, "m", timeout_seconds=patience) as endpoint:
        ender = threading.Timer(2 * patience, stop.set)
        ender.start()
        endpoint.hold(QUESTION, stop, begun, max_tokens=16)
        ender.cancel()
        return begun.is_set()


def load(url: str, patience: float) -> object:
    target = LoadTarget(url, "m")
    tally, _ = run(target, Repeated(target, 2, 16), Arrivals(concurrency=1, patience_seconds=patience))
    assert tally.succeeded == 0
    return ", ".join(f"{kind}: {words}" for kind, words in tally.error_samples.items())


def token_count(url: str, patience: float) -> object:
    with Server(LoadTarget(url, "m"), patience_seconds=patience) as server:
        return server.prompt_tokens([{"role": "user", "content": "go"}])


def sampled(url: str, patience: float) -> object:
    async def one() -> str:
        sampler = Sampler(LoadTarget(url, "m"), None)
        sampler._path = "/metrics"
        async with asyncio.timeout(patience):  # as its loop has it
            return await sampler._page()

    try:
        return len(asyncio.run(one()))
    except Exception as error:
        return f"passed over: {error!r}"


def _hub(url: str, patience: float) -> Hub:
    return Hub(url, None, patience=2, silence_seconds=patience, sleep=lambda _: None)


def listing(url: str, patience: float) -> object:
    return Repository(_hub(url, patience), "owner/model", None, Traffic()).files


def hub_file(url: str, patience: float) -> object:
    wire = HubConnection(_hub(url, patience), Traffic())
    try:
        blob = RemoteBlob(wire, "owner/model", "main", "model.gguf", 50_000_000)
        return sum(map(len, blob.pieces(0, 4_000_000)))
    finally:
        wire.close()


WASTEFUL = ("chunks forever", "pieces forever", "empty events forever", "continues forever", "many values")
CHIEF: tuple[Client, ...] = (answer, streamed, load, listing)
OTHERS: tuple[Client, ...] = (json_page, raw_lines, metrics, health, held, token_count, sampled, hub_file)
REFUSED_LISTING = r"longer than 32\.0 MB; refused"
SLOW_LISTING = r"only \d+ bytes came in \d+ s, 2 times in a row"
LATE = r"did not answer in time"
UNREACHED = rf"no connection to \S+ \({LATE}\), 2 times in a row"
STALLED = r"stalled: nothing of an answer for 0\.3 s"
LENGTHY = r"sent more than 1\.07 MB"
LOADED_TOO_LONG = r"too long: more than 1\.07 MB"
DROPPED_LATE = rf"the connection dropped \({LATE}\)"
CLOSED = r"cannot be reached: it closes the connection"
NO_EVENTS = r"sent no stream of events: "
NO_STREAM = r"no stream: "
NO_LISTING = r"is not a listing of its files"
NO_JSON = r"did not answer in JSON: "
HEAD = r"sent a head that is too long"
PARIS = r"^Paris$"
EITHER = f"{LATE}|{LENGTHY}"
BY_BYTES_OR_TIME = (EITHER, EITHER, f"{STALLED}|{LOADED_TOO_LONG}", f"{LATE}|{SLOW_LISTING}|{REFUSED_LISTING}")
"""Small pieces without end: which bound is met first depends on how fast the machine is."""
NAMED: dict[str, tuple[str, str, str, str]] = {
    # behaviour: what is said of an answer in one piece, of one that is streamed, of a load, of a hub
    "endless line": (LENGTHY, LENGTHY, LOADED_TOO_LONG, REFUSED_LISTING),
    "endless body": (LENGTHY, LENGTHY, LOADED_TOO_LONG, REFUSED_LISTING),
    "chunks forever": BY_BYTES_OR_TIME,
    "pieces forever": BY_BYTES_OR_TIME,
    "empty events forever": BY_BYTES_OR_TIME,
    "comments": (LATE, LATE, STALLED, f"{SLOW_LISTING}|{UNREACHED}"),
    "drip": (LATE, LATE, STALLED, f"{SLOW_LISTING}|{UNREACHED}"),
    "byte a second": (LATE, LATE, STALLED, DROPPED_LATE),
    "hangs after headers": (LATE, LATE, STALLED, DROPPED_LATE),
    "slow then fast": (LATE, LATE, STALLED, f"{SLOW_LISTING}|{UNREACHED}"),
    "unavailable": (r"answered HTTP 503", r"answered HTTP 503", r"HTTP 503", r"answers 503, 2 times"),
    "slow head": (LATE, LATE, STALLED, UNREACHED),
    "half open": (LATE, LATE, STALLED, UNREACHED),
    "continues forever": (LATE, LATE, f"{STALLED}|{LOADED_TOO_LONG}", UNREACHED),
    "closed": (CLOSED, CLOSED, r"reset: the connection was closed before an answer", CLOSED),
    "not http": (CLOSED, CLOSED, r"malformed: not an HTTP|reset: ", CLOSED),
    "reset": (NO_JSON, r"'finish_reason': None", r"no finish_reason|cut: ", NO_LISTING),
    "too short": (r"ended inside its answer", r"'cut': True", r"cut: ", r"dropped \(ended inside its answer"),
    "two lengths": (*(r"as it should: conflicting",) * 2, r"malformed: two lengths, 2 and 90", r"conflicting"),
    "absurd length": (*(r"as it should: bad Content-Length",) * 2, r"malformed: not a length", r"bad Content-Length"),
    "absurd chunk": (HEAD, r"'cut': True", r"malformed: a chunk without a length", r"the connection dropped"),
    "redirects": (r"answered HTTP 302", r"answered HTTP 302", r"HTTP 302: no words", r"connection to 127\.0\.0\.1:9 "),
    "redirect loop": (r"answered HTTP 307", r"answered HTTP 307", r"HTTP 307: no words", r"more than 5 redirects"),
    "endless error": (*(r"answered HTTP 500: x{200}$",) * 2, LOADED_TOO_LONG, r"answers 500, 2 times"),
    "gigantic header": (HEAD, HEAD, r"malformed: a head without an end", HEAD),
    "many headers": (HEAD, HEAD, r"malformed: a head without an end", HEAD),
    "nested": (r"nested its JSON too deeply", NO_EVENTS, NO_STREAM, r"it nested its JSON too deeply"),
    "many values": (EITHER, EITHER, r"malformed: a length of 4200016 bytes", r"it put more than 1,500,000 values"),
    "bomb answer": (*(r"answered compressed \(gzip\)",) * 2, LOADED_TOO_LONG, r"compressed \(gzip\); refused"),
    "trailing garbage": (NO_JSON, NO_EVENTS, NO_STREAM, NO_LISTING),
    "nul bytes": (NO_JSON, NO_EVENTS, NO_STREAM, NO_LISTING),
    "not json": (NO_JSON, NO_EVENTS, NO_STREAM, NO_LISTING),
    "broken letters": ("^\ufffd\ufffd\ufffdPar\ufffd$", NO_EVENTS, NO_STREAM, NO_LISTING),
    "huge numbers": (PARIS, NO_EVENTS, NO_STREAM, NO_LISTING),
    "two of a key": (PARIS, NO_EVENTS, NO_STREAM, NO_LISTING),
    "wrong kinds": (r"^$", NO_EVENTS, NO_STREAM, NO_LISTING),
    "wrong pieces": (NO_JSON, r"'broken_chunk'", r"malformed: an event that is no object", NO_LISTING),
}  # fmt: skip


def peak_bytes() -> int:
    status = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(status[1]) * 1024 if status else 0


def met(behaviour: str, clients: Sequence[Client]) -> list[tuple[float, str]]:
    """How long each client took, and what it said; a bug of a client is no word of it, and is raised."""

    def timed(client: Client, url: str) -> tuple[float, str]:
        began = time.monotonic()
        try:
            outcome = str(client(url, patience))
        except UprightError as error:
            outcome = error.message
        return time.monotonic() - began, outcome

    patience = SHORT_PATIENCE_SECONDS if LATE in NAMED[behaviour][0] else LONG_PATIENCE_SECONDS
    with hostile(behaviour) as url, ThreadPoolExecutor(len(clients)) as pool:
        outcomes = [future.result() for future in [pool.submit(timed, client, url) for client in clients]]
    gc.collect()  # a connection that a client left open is told of here, and not in another test
    return outcomes


@pytest.mark.promise("every behaviour is met in bounded time and memory, and named")
@pytest.mark.parametrize(
    "behaviour", [pytest.param(name, marks=pytest.mark.slow if name in WASTEFUL else ()) for name in BEHAVIOURS]
)
def test_a_behaviour_is_met_and_named(behaviour: str):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    outcomes = met(behaviour, CHIEF)
    assert peak_bytes() - before < MOST_MEMORY_BYTES
    for client, wanted, (seconds, words) in zip(CHIEF, NAMED[behaviour], outcomes, strict=True):
        assert re.search(wanted, words), f"{client.__name__}: {words[:300]}"
        assert seconds < LONGEST_SECONDS, f"{client.__name__}: {seconds:.1f} s"


@pytest.mark.slow
@pytest.mark.promise("every behaviour is met in bounded time and memory, and named")
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_every_client_survives_it(behaviour: str):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    outcomes = met(behaviour, OTHERS)
    assert peak_bytes() - before < MOST_MEMORY_BYTES
    for client, (seconds, words) in zip(OTHERS, outcomes, strict=True):
        assert words, client.__name__
        assert seconds < LONGEST_SECONDS, f"{client.__name__}: {seconds:.1f} s"


@pytest.mark.promise("every behaviour is met in bounded time and memory, and named")
def test_there_are_more_than_twenty_behaviours_and_each_has_its_words():
    assert len(BEHAVIOURS) > 20
    assert set(NAMED) == set(BEHAVIOURS)


@pytest.mark.promise(
    "a stream that goes on is waited for as long as pieces come, and not longer than its length allows"
)
def test_a_slow_stream_is_not_cut():
    """Each piece comes within patience, all of them do not."""
    with serving_slowly(pieces=6, every_seconds=0.5) as url, Endpoint(url, "m", timeout_seconds=2.0) as endpoint:
        whole = endpoint.stream(QUESTION, max_tokens=16)
    assert whole.text == "word " * 6
    assert whole.finish_reason == "stop"
    assert whole.seconds > 2.0


@pytest.mark.promise("what a server answers to `prove` neither fills memory nor stops the command")
def test_prove_survives_an_endless_line(tmp_path: Path):
    with hostile("endless line") as url:
        done = subprocess.run(
            [sys.executable, "-c", TELLING_ITS_PEAK,
             "prove", "--base-url", f"{url}/v1", "--model", "m", "--to", "smoke"],
            capture_output=True, text=True, check=False, timeout=100,
            env={**os.environ, "UPRIGHT_HOME": str(tmp_path), "NO_COLOR": "1"},
        )  # fmt: skip
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "sent more than" in done.stdout + done.stderr
    peak = re.search(r"VmHWM:\s+(\d+) kB", done.stderr)
    assert peak
    assert int(peak[1]) * 1024 < 300_000_000


@contextmanager
def serving_slowly(pieces: int, every_seconds: float) -> Iterator[str]:
    class Slow(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for _ in range(pieces):
                time.sleep(every_seconds)
                self.wfile.write(b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n')
            self.wfile.write(b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()

"""What clients do with connections: keys in either header, many at once, kept open, and left halfway."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from upright.base.errors import EndpointError
from upright.proof.ladder.conformance.anthropic import MESSAGES, message_body
from upright.proof.ladder.conformance.check import QUESTION, Check, judgement_of
from upright.proof.ladder.conformance.openai import CHAT, chat_body
from upright.proof.ladder.observing import Judgement
from upright.proof.ladder.rung import ProofContext
from upright.serving.connect.streams import openai_faults
from upright.serving.endpoint.metrics import Metrics, read_metrics

_AT_ONCE = 32
_LEFT = 8
_FREE_SECONDS = 20.0
"""How long an engine may take to notice that nobody listens any more."""
_WRONG_KEY = "sk-nobody-has-this-key"


def _bearer_key(stand: ProofContext) -> Judgement:
    """`Authorization: Bearer`, as OpenAI's clients send it, and ANTHROPIC_AUTH_TOKEN."""
    return _keyed(stand, "Authorization", "Bearer ")


def _x_api_key(stand: ProofContext) -> Judgement:
    """As Anthropic's clients send ANTHROPIC_API_KEY."""
    return _keyed(stand, "x-api-key", "")


def _keyed(stand: ProofContext, header: str, before: str) -> Judgement:
    endpoint, recipe = stand.endpoint, stand.target.recipe
    if endpoint.key is None or (recipe is not None and not recipe.takes_key):
        return "skipped", "the server was given no key"
    path, body = MESSAGES, message_body(endpoint)
    right, response_text = endpoint.exchange(path, body, headers={header: f"{before}{endpoint.key}"})
    if right == 404:  # it has no messages API
        path, body = CHAT, {**chat_body(endpoint), "stream": False, "stream_options": None}
        right, response_text = endpoint.exchange(path, body, headers={header: f"{before}{endpoint.key}"})
    if right in (401, 403):
        return "unsupported", f"HTTP {right}: the key is not read from {header}"
    if right != 200:
        return "failed", f"HTTP {right}: {response_text[:80]}"
    wrong, _ = endpoint.exchange(path, body, headers={header: f"{before}{_WRONG_KEY}"})
    return judgement_of(
        [] if wrong in (401, 403) else [f"a wrong key is answered with HTTP {wrong}"], "read and judged"
    )


def _keep_alive(stand: ProofContext) -> Judgement:
    """Two whole answers over one connection; after a stream many servers close it, which clients notice."""
    body = {"model": stand.endpoint.model, "messages": QUESTION, "max_tokens": 4}
    ports = [stand.endpoint.local_port(CHAT, body) for _ in range(2)]
    if None in ports:
        return "unsupported", "which connection it was is not known"
    if ports[0] != ports[1]:
        return "failed", "a connection is not kept after a whole answer"
    stand.endpoint.raw_lines(CHAT, chat_body(stand.endpoint))
    kept = stand.endpoint.local_port(CHAT, body) == ports[0]
    return "passed", f"kept after a whole answer, {'also' if kept else 'closed'} after a stream"


def _parallel(stand: ProofContext) -> Judgement:
    def ask(_: int) -> list[str]:
        try:
            return openai_faults(stand.endpoint.raw_lines(CHAT, chat_body(stand.endpoint)))
        except EndpointError as error:
            return [error.message]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        stream_faults = list(pool.map(ask, range(_AT_ONCE)))
    broken = [faults for faults in stream_faults if faults]
    wrong = [f"{len(broken)} of {_AT_ONCE} streams at once broke: {broken[0][0]}"] if broken else []
    return judgement_of(wrong, f"{_AT_ONCE} streams at once, all whole")


def _cancelled(stand: ProofContext) -> Judgement:
    """Streams that are left after their first piece: the engine's own count of what runs goes back to nothing."""
    endpoint = stand.endpoint
    try:
        before = read_metrics(endpoint.text("/metrics"))
    except EndpointError:
        return "skipped", "the engine does not say what it runs"
    if before.running is None:
        return "skipped", "the engine does not say what it runs"
    stop, begun = threading.Event(), threading.Event()
    stop.set()
    room = max(64, (stand.target.context_tokens or 2_048) // 2)

    def leave(_: int) -> None:
        endpoint.hold(QUESTION, stop, begun, max_tokens=room, ignore_eos=True)

    with ThreadPoolExecutor(_LEFT) as pool:
        list(pool.map(leave, range(_LEFT)))
    left = _settled(stand)
    running = (left.running or 0) + (left.waiting or 0)
    wrong = [] if running == 0 else [f"{running:g} of {_LEFT} streams that were left still run"]
    return judgement_of(wrong, f"{_LEFT} streams left, nothing runs")


def _settled(stand: ProofContext) -> Metrics:
    deadline = time.monotonic() + _FREE_SECONDS
    while True:
        now = read_metrics(stand.endpoint.text("/metrics"))
        if not (now.running or now.waiting) or time.monotonic() > deadline:
            return now
        time.sleep(0.2)


CHECKS: dict[str, Check] = {
    "bearer key": _bearer_key,
    "x-api-key": _x_api_key,
    "keep-alive": _keep_alive,
    "parallel": _parallel,
    "cancelled": _cancelled,
}

"""Runs questions at a concurrency; some neighbours hang up in mid-answer."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from upright.base.errors import EndpointError
from upright.base.progress import pace, pulsing
from upright.proof.ladder.cache_filling import CacheGauge
from upright.proof.ladder.load_questions import LoadQuestion, answer_content
from upright.proof.ladder.observing import patience, request_of
from upright.proof.ladder.rung import ProofContext
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards import complaints

CERTAIN_PROBABILITY = 0.9
"""A token at least so likely has no rival that rounding in another batch could lift above it: its logit leads the next
one's by 2.2 or more, and bf16 batches differ by tenths."""
_LEAVERS_SHARE = 1 / 8
"""Connections beside the load that ask and hang up, again and again."""
_LEAVE_PAUSE_SECONDS = 0.05
_REFUSED = (429, 503)


@dataclass(frozen=True)
class LoadAnswer:
    """What became of one question."""

    question: LoadQuestion
    said: str
    wrong: str | None
    """Why the rule, or a guard, does not take it."""
    error: str | None = None
    refused: bool = False
    """The server said that it takes no more."""
    neighbours: tuple[str, ...] = ()
    """Questions that were in flight at its beginning or at its end."""
    sure: float | None = None
    """The likelihood of its least likely token; None if it was not asked for, or not told."""


@dataclass(frozen=True)
class LoadRun:
    """One load."""

    concurrency: int
    answers: tuple[LoadAnswer, ...]
    left: int
    """Neighbours that hung up."""
    cache_usage: float | None
    """The fullest that the engine's cache was, by its own word."""


def ask_alone(stand: ProofContext, question: LoadQuestion, *, stream: bool, logprobs: bool = False) -> LoadAnswer:
    if not logprobs:
        return _answered(stand, question, stream, 1)
    asked = replace(question.asked, options={**(question.asked.options or {}), "logprobs": True, "top_logprobs": 1})
    seen = _answered(stand, replace(question, asked=asked), stream, 1)
    if seen.sure is None:  # refused, or ignored: the guards would complain of that
        return _answered(stand, question, stream, 1)
    return replace(seen, question=question)


def run_load(stand: ProofContext, questions: Sequence[LoadQuestion], concurrency: int, count: int) -> LoadRun:
    """So many requests, so many at a time, streamed and whole by turns, in an order of this climb's own."""
    chance = random.Random(f"{stand.seed} {concurrency}")  # noqa: S311 (not a secret)
    waiting: deque[tuple[LoadQuestion, bool]] = deque()
    while len(waiting) < count:
        waiting.extend((question, chance.random() < 0.5) for question in chance.sample(questions, len(questions)))
    room = _Room(stand, concurrency, deque(list(waiting)[:count]))
    longest = sorted(questions, key=lambda question: question.asked.about_prompt_tokens)[-3:]
    leavers = max(1, math.ceil(_LEAVERS_SHARE * concurrency))
    with CacheGauge(stand.endpoint) as gauge:
        askers = [threading.Thread(target=room.ask, daemon=True) for _ in range(concurrency)]
        leaving = [threading.Thread(target=room.leave, args=(longest,), daemon=True) for _ in range(leavers)]
        try:
            for thread in (*askers, *leaving):
                thread.start()
            began = time.monotonic()
            with pulsing(stand.tell).watching(
                lambda: f"  {pace(len(room.answers), count, time.monotonic() - began, 'answers')}"
            ):
                for thread in askers:
                    thread.join()
        finally:
            room.close()  # also at Ctrl-C: nobody asks another question, and each thread ends with its answer
        for thread in leaving:
            thread.join()
    return LoadRun(concurrency, tuple(room.answers), room.left, gauge.peak)


class _Room:
    """What the threads of one load share."""

    def __init__(self, stand: ProofContext, concurrency: int, waiting: deque[tuple[LoadQuestion, bool]]) -> None:
        self.answers: list[LoadAnswer] = []
        self.left = 0
        self.over = threading.Event()
        self._stand, self._concurrency, self._waiting = stand, concurrency, waiting
        self._flying: dict[int, str] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nothing more is asked."""
        with self._lock:
            self._waiting.clear()
        self.over.set()

    def ask(self) -> None:
        me = threading.get_ident()
        while True:
            with self._lock:
                if not self._waiting:
                    return
                question, stream = self._waiting.popleft()
                beside = set(self._flying.values())
                self._flying[me] = question.name
            seen = _answered(self._stand, question, stream, self._concurrency)
            with self._lock:
                del self._flying[me]
                beside |= set(self._flying.values())
                self.answers.append(replace(seen, neighbours=tuple(sorted(beside - {question.name}))))

    def leave(self, questions: Sequence[LoadQuestion]) -> None:
        """Ask, see the first piece, hang up."""
        at_once, number = threading.Event(), 0
        at_once.set()
        while not self.over.is_set():
            request = request_of(self._stand, questions[number % len(questions)].asked)
            self._stand.endpoint.hold(request.pop("messages"), at_once, threading.Event(), **request)
            number += 1
            with self._lock:
                self.left += 1
            self.over.wait(_LEAVE_PAUSE_SECONDS)


def _answered(stand: ProofContext, question: LoadQuestion, stream: bool, concurrency: int) -> LoadAnswer:
    """No rate is learned from it: a crowd's are not those of one user."""
    request = request_of(stand, question.asked)
    put = stand.endpoint.stream if stream else stand.endpoint.chat
    try:
        answer = put(request.pop("messages"), timeout_seconds=concurrency * patience(stand, question.asked), **request)
    except EndpointError as error:
        return LoadAnswer(question, "", None, error.message, refused=error.status in _REFUSED)
    broken = next(complaints(answer, scripts=stand.prompts.scripts), None)
    return LoadAnswer(
        question, answer_content(answer), broken.what if broken else question.wrong(answer), sure=_sure(answer)
    )


def _sure(answer: Answer) -> float | None:
    logprobs = [entry.get("logprob") for entry in answer.logprobs or ()]
    numbers = [float(entry) for entry in logprobs if isinstance(entry, int | float)]
    return math.exp(min(0.0, min(numbers))) if numbers and len(numbers) == len(logprobs) else None

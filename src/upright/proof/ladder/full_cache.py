"""All users together with full contexts: a text for each, and what each is answered.

A request writes on after its answer until the others are read too: so the cache is as full as the users can make it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from upright.base.errors import EndpointError
from upright.base.progress import pace, pulsing
from upright.proof.ladder.cache_filling import MOST_FILLERS, CacheGauge
from upright.proof.ladder.concurrent_load import LoadAnswer
from upright.proof.ladder.load_questions import SENTENCE_TOKENS, LoadQuestion, own_text
from upright.proof.ladder.observing import patience, request_of
from upright.proof.ladder.rung import ProofContext
from upright.serving.endpoint.guards.token_counts import tokenizer_count

_SHARE = 0.97
"""Of the context: the text, the question and what is written."""
_UNCOUNTED_SHARE = 0.9
"""The same where the engine's tokenizer cannot be asked: a sentence's cost is an average, and too long is refused."""
_READ_TOKENS = 1_024
"""In a step, at least: so many of the others' tokens are read while one is written."""
_LEAST_WRITTEN, _MOST_WRITTEN_SHARE = 32, 0.05
_SEED = 400
_REFUSED = (400, 413, 429, 503)


@dataclass(frozen=True)
class FullCacheRun:
    """All of them at once."""

    answers: tuple[LoadAnswer, ...]
    usage: float | None
    """The fullest that the cache was, by the engine's own word."""


def tested_concurrency(users: int) -> int:
    return min(max(users, 2), MOST_FILLERS)


def written_tokens(users: int, context_tokens: int) -> int:
    """What each writes, so that the first is still open when the last is read."""
    needed = max(users * context_tokens // _READ_TOKENS, _LEAST_WRITTEN)
    return max(1, min(needed, int(_MOST_WRITTEN_SHARE * context_tokens)))


def whole_texts(stand: ProofContext, context_tokens: int) -> tuple[LoadQuestion, ...]:
    """A text for each user that no other one has a number of; none where the prompts have no texts."""
    users = tested_concurrency(stand.target.users)
    written = written_tokens(users, context_tokens)
    wanted = _SHARE * context_tokens - written
    sentences = int(wanted / (stand.tokens_per_sentence or SENTENCE_TOKENS))
    taken = set[str]()
    draft = own_text(stand, "draft", sentences, stand.seed + _SEED, set())
    if draft is None:
        return ()
    counted = tokenizer_count(stand.endpoint, draft.asked.messages)
    sentences = int(sentences * (wanted / counted if counted else _UNCOUNTED_SHARE))
    texts = [
        own_text(stand, f"whole text {number}", sentences, stand.seed + _SEED + number, taken)
        for number in range(1, users + 1)
    ]
    options = {"ignore_eos": True}
    return tuple(
        replace(text, asked=replace(text.asked, max_tokens=written, options=options, about_prompt_tokens=int(wanted)))
        for text in texts
        if text is not None
    )


def ask_together(stand: ProofContext, questions: Sequence[LoadQuestion]) -> FullCacheRun:
    answers: list[LoadAnswer] = []

    def ask(question: LoadQuestion) -> None:
        answers.append(ask_about_text(stand, question, len(questions)))

    threads = [threading.Thread(target=ask, args=(question,), daemon=True) for question in questions]
    began = time.monotonic()
    progress = pulsing(stand.tell).watching(
        lambda: f"  {pace(len(answers), len(questions), time.monotonic() - began, 'texts')}"
    )
    with CacheGauge(stand.endpoint) as gauge, progress:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return FullCacheRun(tuple(answers), gauge.peak)


def ask_about_text(stand: ProofContext, question: LoadQuestion, in_flight: int) -> LoadAnswer:
    """By its number alone: what is written on after the answer is nobody's."""
    request = request_of(stand, question.asked)
    limit = in_flight * patience(stand, question.asked)
    try:
        answer = stand.endpoint.stream(request.pop("messages"), timeout_seconds=limit, **request)
    except EndpointError as error:
        return LoadAnswer(question, "", None, error.message, refused=error.status in _REFUSED)
    return LoadAnswer(question, answer.text.strip(), question.wrong(answer))

"""Language, arithmetic, JSON: is anybody at home?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from upright.endpoint.client import Endpoint
from upright.endpoint.guards import complaint
from upright.errors import EndpointError
from upright.proving.prompts import PromptSet, Question
from upright.proving.rules import judge
from upright.proving.rung import Rung
from upright.records.evidence import Observation, Verdict

NAME = "smoke"


def _climb(endpoint: Endpoint, prompts: PromptSet) -> Iterator[Observation]:
    for question in prompts.of(NAME):
        yield _ask(endpoint, question)


def _ask(endpoint: Endpoint, question: Question) -> Observation:
    messages = [{"role": "user", "content": question.ask}]
    at, started = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
    try:
        answer = endpoint.chat(messages, temperature=0, max_tokens=question.max_tokens)
    except EndpointError as error:
        return Observation(
            rung=NAME,
            check=question.check,
            verdict="failed",
            reason=error.message,
            at=at,
            seconds=round(time.monotonic() - started, 3),
            request={"messages": messages},
            response=None,
        )
    wrong = complaint(answer) or judge(question.rule, answer.text, question.expect)
    verdict: Verdict = "failed" if wrong else "passed"
    return Observation(
        rung=NAME,
        check=question.check,
        verdict=verdict,
        reason=wrong or f"{question.rule}: {question.expect}",
        at=at,
        seconds=round(answer.seconds, 3),
        request=answer.request,
        response=answer.response,
    )


RUNG = Rung(NAME, _climb)

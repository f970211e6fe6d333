"""Is it really up: does it serve that name, count as its tokenizer counts, and how fast is it?"""

from __future__ import annotations

import random

from upright.base.errors import EndpointError
from upright.facts.records.evidence import Observation
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.long_text import sentence
from upright.proof.ladder.observing import Judgement, SentQuestion, Slot, observation_of, observe, observe_answer, send
from upright.proof.ladder.prompts import Question
from upright.proof.ladder.rules import judge as rule
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards.token_counts import (
    count_mismatch,
    foreign_template,
    tokenizer_count,
    uneven_growth,
)

NAME = "boot"
_RATE_SENTENCES = 160
"""About 2,000 tokens: long enough to be a witness, seconds even at 300 tokens a second."""
_SENTENCE_TOKENS = 24
"""At most, about."""
_RATE_SECONDS = 120.0
"""For reading them, on a box so slow that the first answer shows it."""
_LEAST_SENTENCES = 16


def _probes(stand: ProofContext) -> list[Probe]:
    ours = [Probe("state", "state", _state), Probe("memory", "memory", _memory)] if stand.target.deployment else []
    return [
        *ours,
        Probe("served name", "served name", _name),
        Probe("template", "template", _template),
        Probe("first answer", "first answer", _first_answer, ProbeCost(prompt_tokens=64, answer_tokens=16)),
        Probe("rates", "rates", _rates, ProbeCost(prompt_tokens=2_000, answer_tokens=16)),
        Probe("token count", "token count", _count, ProbeCost(prompt_tokens=64, answer_tokens=16)),
        Probe("logprobs", "logprobs", _logprobs, ProbeCost(prompt_tokens=64, answer_tokens=16)),
    ]


def _state(stand: ProofContext) -> Observation:
    deployment = stand.target.deployment
    assert deployment is not None
    took = "" if deployment.ready_seconds is None else f" after {deployment.ready_seconds} s"
    ready = deployment.state == "ready"
    reason = f"{deployment.state}{took}" + ("" if ready else f": {deployment.reason}")
    return observation_of(stand, Slot(NAME, "state", "state"), "passed" if ready else "failed", reason)


def _memory(stand: ProofContext) -> Observation:
    """Another memory than was planned is no fault of the engine; it is said, and the next plan learns from it."""
    slot, residuals = Slot(NAME, "memory", "memory"), stand.target.residuals
    if residuals is None:
        return observation_of(stand, slot, "skipped", "the engine's memory could not be read back")
    known = [line for line in residuals.lines if line.within is not None]
    inside = sum(bool(line.within) for line in known)
    reason = f"{inside} of {len(known)} terms of memory are within the plan's band (upright tools residuals)"
    return observation_of(stand, slot, "passed" if known else "skipped", reason)


def _name(stand: ProofContext) -> Observation:
    slot = Slot(NAME, "served name", "served name")
    if stand.endpoint.names_what_is_loaded:
        why = f"{stand.endpoint.model} is its name for what it loaded; it lists what it could load"
        return observation_of(stand, slot, "skipped", why)
    try:
        names = stand.endpoint.models()
    except EndpointError as error:
        return observation_of(stand, slot, "failed", error.message)
    if stand.endpoint.model in names:
        return observation_of(stand, slot, "passed", f"serves {stand.endpoint.model}", response={"models": names})
    reason = f"serves {', '.join(names) or 'nothing'}, not {stand.endpoint.model}"
    return observation_of(stand, slot, "failed", reason, response={"models": names})


def _template(stand: ProofContext) -> Observation:
    """Answers by another family's template are fluent, and wrong in ways that look like a weak model."""
    slot, foreign = Slot(NAME, "template", "template"), foreign_template(stand.endpoint)
    if foreign is None:
        return observation_of(
            stand, slot, "skipped", "the engine does not show what its template makes of a conversation"
        )
    return observation_of(
        stand, slot, "failed" if foreign else "passed", foreign or "turns are marked with its own tokens"
    )


def _first_answer(stand: ProofContext) -> Observation:
    """The simplest question there is, judged: /health, a name and right counts can all be had with garbage."""
    first = stand.prompts.smoke[0]
    asked = SentQuestion([{"role": "user", "content": first.ask}], max_tokens=first.max_tokens)

    def judge(answer: Answer) -> Judgement:
        wrong = rule(first.rule, answer.text, first.expect)
        return ("failed", wrong) if wrong else ("passed", f"{first.rule}: {first.expect}")

    return observe(stand, Slot(NAME, "first answer", "first answer"), asked, judge)


def _rates(stand: ProofContext) -> Observation:
    """One prompt of plain sentences: what it costs to read and to write, and how many tokens a sentence is."""
    slot = Slot(NAME, "rates", "rates")
    first = stand.prompts.smoke[0]
    sentences = _filler(stand, _RATE_SENTENCES)
    if (slow := stand.rates.least_prefill) is not None:  # at 15 tok/s half of them
        sentences = sentences[: max(_LEAST_SENTENCES, int(slow * _RATE_SECONDS / _SENTENCE_TOKENS))]
    room = stand.target.context_tokens
    if room is not None:  # a small context holds less; a sentence is at most about 24 tokens
        sentences = sentences[: max(4, min(len(sentences), room // (2 * _SENTENCE_TOKENS)))]
    asked = SentQuestion(
        [{"role": "user", "content": f"{' '.join(sentences)}\n\n{first.ask}"}],
        max_tokens=first.max_tokens,
        stream=True,
        about_prompt_tokens=_SENTENCE_TOKENS * len(sentences),
    )
    seen, answer = observe_answer(stand, slot, asked, _speed)
    if answer is not None and answer.prompt_tokens and sentences:
        stand.tokens_per_sentence = (answer.prompt_tokens - _bare_tokens(stand)) / len(sentences)
        measured = {**seen.measured, "tokens_per_sentence": round(stand.tokens_per_sentence, 3)}
        return seen.model_copy(update={"measured": measured})
    return seen


def _bare_tokens(stand: ProofContext) -> float:
    """The same question without the sentences: the template's own tokens and the question's."""
    seen = (observation for observation in stand.observations if observation.probe == "first answer")
    return next((observation.measured.get("prompt_tokens", 0.0) for observation in seen), 0.0)


def _filler(stand: ProofContext, count: int) -> list[str]:
    if stand.prompts.needles is None:
        return []
    chance = random.Random(f"rates {stand.seed}")  # noqa: S311 (not a secret); new for each climb: no cache has it
    return [sentence(stand.prompts.needles, chance) for _ in range(count)]


def _speed(answer: Answer) -> Judgement:
    return "passed", f"answered after {answer.seconds:.2f} s, {answer.prompt_tokens:,} tokens read"


def _count(stand: ProofContext) -> Observation:
    slot = Slot(NAME, "token count", "token count")
    question: Question = stand.prompts.smoke[0]
    messages = [{"role": "user", "content": question.ask}]
    asked = SentQuestion(messages, max_tokens=question.max_tokens)
    template = {name: option for name, option in stand.prompts.modes.get("instant", {}).items() if "template" in name}
    expected = tokenizer_count(stand.endpoint, messages, **template)
    if expected is None:
        return _count_by_difference(stand, slot, question)

    def judge(answer: Answer) -> Judgement:
        wrong = count_mismatch(answer.prompt_tokens or 0, expected)
        return (
            ("failed", wrong) if wrong else ("passed", f"{answer.prompt_tokens} prompt tokens, as its tokenizer says")
        )

    seen = observe(stand, slot, asked, judge)
    is_count = seen.verdict == "failed" and "prompt tokens" in seen.reason
    return seen.model_copy(update={"guard": "count"}) if is_count else seen


def _count_by_difference(stand: ProofContext, slot: Slot, question: Question) -> Observation:
    counts = []
    text = " ".join(_filler(stand, 8))
    try:
        for times in (1, 2, 3):
            content = f"{' '.join([text] * times)}\n\n{question.ask}"
            asked = SentQuestion([{"role": "user", "content": content}], max_tokens=question.max_tokens)
            counts.append(send(stand, asked).prompt_tokens or 0)
    except EndpointError as error:
        return observation_of(stand, slot, "failed", error.message)
    wrong = uneven_growth((counts[0], counts[1], counts[2]))
    response = {"counts": counts}
    if wrong:
        return observation_of(stand, slot, "failed", wrong, guard="count", response=response)
    reason = f"the same text adds {counts[1] - counts[0]} tokens each time (no tokenizer address)"
    return observation_of(stand, slot, "passed", reason, response=response)


def _logprobs(stand: ProofContext) -> Observation:
    question = stand.prompts.smoke[0]
    asked = SentQuestion(
        [{"role": "user", "content": question.ask}],
        max_tokens=question.max_tokens,
        options={"logprobs": True, "top_logprobs": 1},
        optional=True,
    )

    def judge(answer: Answer) -> Judgement:
        entries = answer.logprobs or []
        lowest = min((float(entry.get("logprob", 0)) for entry in entries), default=0.0)
        return "passed", f"{len(entries)} tokens, the least likely at {lowest:.2f}"

    seen = observe(stand, Slot(NAME, "logprobs", "logprobs"), asked, judge)
    if seen.guard == "logprobs" and "none came" in seen.reason:
        return seen.model_copy(update={"verdict": "unsupported", "reason": "the server sends no logprobs"})
    return seen


RUNG = LadderRung(NAME, "served name, token counts match, first speed", _probes)

"""Is it still the same model? Fixed prompts continued greedily, held against a reference token by token."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from upright.base.errors import EndpointError
from upright.base.progress import utc_now
from upright.facts.records.evidence import Observation, Verdict
from upright.facts.records.reference import Continuation
from upright.proof.ladder.equivalence.allowance import TIMES, allowance
from upright.proof.ladder.equivalence.distance import (
    ComparedPrompt,
    Interval,
    compare_prompt,
    distance,
    mean_divergence,
    sign_test,
)
from upright.proof.ladder.equivalence.fixed_prompts import FixedPrompt, FixedPrompts, fixed_prompts
from upright.proof.ladder.equivalence.references import (
    CONTINUATION,
    RUNG_NAME,
    NoDistributionError,
    continuation_of,
    continuations,
)
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.observing import SentQuestion, Slot, bounded_request, observation_of, send, was_refused
from upright.proof.ladder.rules import judge
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.endpoint.client import Answer

NAME = RUNG_NAME
PROMPT = "prompt"
"""The check of one prompt; the others sum up."""
_SENTENCE_TOKENS = 24
"""At most."""
_CHANCE = 0.01
"""How often losses may be called more than chance where they are not."""


def _probes(stand: ProofContext) -> list[Probe]:
    fixed = fixed_prompts(stand.prompts)
    asks = [
        Probe(
            PROMPT,
            prompt.name,
            _asking(fixed, prompt),
            ProbeCost(prompt_tokens=40 + 14 * prompt.sentences, answer_tokens=fixed.max_tokens),
        )
        for prompt in fixed.prompts
    ]
    sums = {"divergence": _divergence, "agreement": _agreement, "flips": _flips}
    return [*asks, *(Probe(check, check, _summing(check, judge_sum)) for check, judge_sum in sums.items())]


def _asking(fixed: FixedPrompts, prompt: FixedPrompt) -> Callable[[ProofContext], Observation]:
    def ask(stand: ProofContext) -> Observation:
        slot = Slot(NAME, PROMPT, prompt.name)
        context = stand.target.context_tokens
        if context is not None and prompt.sentences * _SENTENCE_TOKENS > context:
            return observation_of(
                stand, slot, "skipped", f"its {prompt.sentences} sentences may not fit {context:,} tokens"
            )
        question = SentQuestion(
            [{"role": "user", "content": fixed.message(prompt)}],
            max_tokens=fixed.max_tokens,
            options={"logprobs": True, "top_logprobs": fixed.top},
            optional=True,
            about_prompt_tokens=_SENTENCE_TOKENS * prompt.sentences,
        )
        at, started = utc_now(), time.monotonic()
        try:
            answer = send(stand, question)
        except EndpointError as error:
            verdict: Verdict = "unsupported" if was_refused(error) else "failed"
            return observation_of(stand, slot, verdict, error.message, at=at, seconds=time.monotonic() - started)
        return _observed(stand, slot, fixed, answer, at)

    return ask


def _observed(stand: ProofContext, slot: Slot, fixed: FixedPrompts, answer: Answer, at: str) -> Observation:
    request = {**bounded_request(answer.request), "fixed_prompts": fixed.reference}
    try:
        continuation = continuation_of(slot.probe, answer)
    except (NoDistributionError, ValueError) as error:
        verdict: Verdict = "unsupported" if isinstance(error, NoDistributionError) else "failed"
        return observation_of(
            stand, slot, verdict, str(error), at=at, seconds=answer.seconds, request=request, response=answer.response
        )
    choice = {"message": {"content": answer.text}, "finish_reason": answer.finish_reason}
    response = {"choices": [choice], CONTINUATION: continuation.model_dump(mode="json")}
    fields: dict[str, Any] = {"at": at, "seconds": answer.seconds, "request": request, "response": response}
    ours = _of_reference(stand).get(slot.probe)
    if ours is None:
        return observation_of(
            stand, slot, "skipped", f"{len(continuation.steps)} tokens kept; no reference has it", **fields
        )
    seen = compare_prompt(ours, continuation)
    figures = {"divergence": seen.divergence, "steps": float(seen.steps)}
    if seen.differs_at is not None:
        figures["differs_at"] = float(seen.differs_at)
    return observation_of(stand, slot, "passed", _parting(ours, continuation, seen), measured=figures, **fields)


def _parting(ours: Continuation, served: Continuation, seen: ComparedPrompt) -> str:
    if seen.differs_at is None:
        return f"the same {seen.steps} tokens, KL {seen.divergence:.2g} nats a token"
    before, after = (side.steps[seen.differs_at][0][0] for side in (ours, served))
    return (
        f"token {seen.differs_at + 1} is {after!r}, {before!r} in the reference; KL {seen.divergence:.2g} nats a token"
    )


@dataclass(frozen=True)
class _Both:
    """What both sides continued."""

    fixed: FixedPrompts
    reference: dict[str, Continuation]
    served: dict[str, Continuation]
    prompts: tuple[ComparedPrompt, ...]


SumUp = Callable[[ProofContext, Slot, _Both], Observation]


def _summing(check: str, judge_sum: SumUp) -> Callable[[ProofContext], Observation]:
    def sum_up(stand: ProofContext) -> Observation:
        slot, reference, served = Slot(NAME, check, check), _of_reference(stand), continuations(stand.observations)
        if not reference:
            reason = "there is no reference to hold it against: --reference FILE, or another deployment's name"
            return observation_of(stand, slot, "skipped", reason)
        pairs = tuple(compare_prompt(reference[name], served[name]) for name in reference if name in served)
        if not any(pair.steps for pair in pairs):
            return observation_of(stand, slot, "skipped", "no prompt was continued with log probabilities")
        return judge_sum(stand, slot, _Both(fixed_prompts(stand.prompts), reference, served, pairs))

    return sum_up


def _divergence(stand: ProofContext, slot: Slot, both: _Both) -> Observation:
    seen, limit = distance(both.prompts), allowance(stand.target.bits)
    mean = seen.divergence
    reason = f"KL {_nats(mean)} nats a token, {seen.steps:,} tokens of {seen.prompts} prompts"
    figures = {**_figures("divergence", mean), "steps": float(seen.steps), "prompts": float(seen.prompts)}
    long_names = {prompt.name for prompt in both.fixed.prompts if prompt.sentences}
    for kind, members in (
        ("short", [pair for pair in both.prompts if pair.prompt not in long_names]),
        ("long", [pair for pair in both.prompts if pair.prompt in long_names]),
    ):
        if any(pair.steps for pair in members):
            figures[f"{kind}_divergence"] = mean_divergence(members).estimate
    if limit is None:
        return observation_of(
            stand, slot, "passed", f"{reason}; how much its precision explains is not known", measured=figures
        )
    figures["allowed"] = limit.divergence
    bits = " and ".join(f"{width:.3g}" for width in stand.target.bits)
    explained = f"{bits} bits explain up to {limit.divergence:.2g} ({TIMES:g} times what a model of 8B lost)"
    verdict: Verdict = "failed" if mean.low > limit.divergence else "passed"
    return observation_of(stand, slot, verdict, f"{reason}; {explained}", measured=figures)


def _agreement(stand: ProofContext, slot: Slot, both: _Both) -> Observation:
    seen, limit = distance(both.prompts), allowance(stand.target.bits)
    reason = (
        f"the same token in {100 * seen.agreement.estimate:.2f} % of steps ({100 * seen.agreement.low:.2f} to "
        f"{100 * seen.agreement.high:.2f} %); {seen.differing} of {seen.prompts} answers part"
    )
    figures = {**_figures("agreement", seen.agreement), "differing": float(seen.differing)}
    if limit is None:
        return observation_of(stand, slot, "passed", reason, measured=figures)
    verdict: Verdict = "failed" if seen.agreement.high < limit.agreement else "passed"
    figures["allowed"] = limit.agreement
    return observation_of(
        stand, slot, verdict, f"{reason}; at least {100 * limit.agreement:.0f} % belong to it", measured=figures
    )


def _flips(stand: ProofContext, slot: Slot, both: _Both) -> Observation:
    """Tasks that the one solves and the other does not. Quantisation moves some both ways; a fault only loses."""
    tasks = [prompt for prompt in both.fixed.prompts if prompt.rule and prompt.name in both.served]
    tasks = [prompt for prompt in tasks if prompt.name in both.reference]
    solved = [(task.name, _solves(both, task, both.reference), _solves(both, task, both.served)) for task in tasks]
    lost = [name for name, before, after in solved if before and not after]
    gained = [name for name, before, after in solved if after and not before]
    named = f": {', '.join(lost[:4])}" + (", …" if len(lost) > 4 else "") if lost else ""
    reason = f"{len(lost)} of {len(tasks)} tasks lost{named}; {len(gained)} gained"
    verdict: Verdict = "failed" if sign_test(len(lost), len(gained)) < _CHANCE else "passed"
    figures = {"tasks": float(len(tasks)), "lost": float(len(lost)), "gained": float(len(gained))}
    return observation_of(stand, slot, verdict, reason, measured=figures)


def _solves(both: _Both, prompt: FixedPrompt, side: dict[str, Continuation]) -> bool:
    assert prompt.rule is not None
    return judge(prompt.rule, side[prompt.name].text, both.fixed.expected(prompt)) is None


def _of_reference(stand: ProofContext) -> dict[str, Continuation]:
    return {one.prompt: one for one in stand.options.reference.continuations} if stand.options.reference else {}


def _nats(interval: Interval) -> str:
    return f"{interval.estimate:.2g} ({interval.low:.2g} to {interval.high:.2g})"


def _figures(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


RUNG = LadderRung(
    NAME, "is it still the same model: KL divergence, top-1 agreement and flips against a reference", _probes
)

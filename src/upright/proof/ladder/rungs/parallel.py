"""Is an answer among others what it is alone: at 2, 8, 32 at a time, with shared, forked and own prefixes, and when
every user fills his context?

First each question is put alone, twice: what differs there is the engine's own noise. Answers of which every token was
sure must be equal under load; the others are held against their rule.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from upright.base.progress import pace, pulsing
from upright.facts.records.evidence import Observation, Verdict
from upright.proof.ladder.cache_filling import FULL
from upright.proof.ladder.concurrent_load import CERTAIN_PROBABILITY, LoadAnswer, LoadRun, ask_alone, run_load
from upright.proof.ladder.detectable_rates import ruled_out_words
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.full_cache import (
    FullCacheRun,
    ask_about_text,
    ask_together,
    tested_concurrency,
    whole_texts,
    written_tokens,
)
from upright.proof.ladder.load_questions import LoadQuestion, load_questions
from upright.proof.ladder.observing import Slot, fault_or_weakness, observation_of
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext, ProofTarget
from upright.proof.ladder.trends import exceeds

NAME = "parallel"
_LEVELS = (2, 8, 32)
_MOST = 64
"""Connections of ours; a plan for more users is tried with so many."""
_REQUESTS = 300
"""Under load in all: a fault in one answer of 50 is met with 99.8 %."""
_LOWER_REQUESTS = 48
"""At each concurrency below the highest."""
_NARROWING_REQUESTS = 96
_NARROWINGS = 3
_BUDGET = 0.001
"""Of all requests: so many may fail."""
_LEAST_QUESTIONS = 4
_FULL_CACHE = "full cache"
_ONE_TEXT = {"shared prefix", "forked prefix"}
_KEPT = 5
"""Differences that evidence holds in words."""


@dataclass(frozen=True)
class Baseline:
    """What the engine answers to one request at a time."""

    questions: tuple[LoadQuestion, ...]
    """Those that are put under load."""
    said: dict[str, str]
    exact: frozenset[str]
    """Must be answered the same: sure of each token, and right, unless the model is known to be weak. None of an engine
    whose sure answers differ alone."""
    weak: tuple[str, ...]
    """Not answered rightly alone; nothing follows from them."""
    flips: int
    """Questions whose two answers differ."""
    wrong_flips: int
    """Of those, right one time and wrong the other."""
    faults: tuple[str, ...]
    """What is wrong alone already, and not by weakness."""


def _probes(stand: ProofContext) -> list[Probe]:
    questions = load_questions(stand)
    if len(questions) < _LEAST_QUESTIONS:
        why = f"the context holds {len(questions)} of the questions, too few for a load"
        return [
            Probe("alone", "alone", lambda stand: observation_of(stand, Slot(NAME, "alone", "alone"), "skipped", why))
        ]
    reading = sum(64 + question.asked.about_prompt_tokens for question in questions)
    writing = sum(question.about_tokens for question in questions)
    levels = concurrencies(stand.target.users)
    probes = [Probe("alone", "alone", _alone, ProbeCost(reading, 2 * writing))]
    for level, count in levels:
        tokens = int(count * writing / len(questions) / level**0.5)
        probes.append(Probe("load", _name(level), _loading(level, count), ProbeCost(64 * count, tokens)))
    if stand.target.context_tokens:
        probes.append(Probe(_FULL_CACHE, _FULL_CACHE, _with_full_cache, _full_cost(stand.target)))
    return [*probes, Probe("alone again", "alone again", _alone_again, ProbeCost(64 * len(questions), writing))]


def concurrencies(users: int) -> list[tuple[int, int]]:
    """How many at a time, with how many requests: up to what the plan promises, and never fewer than two."""
    top = min(max(users, 2), _MOST)
    below = [level for level in _LEVELS if level < top]
    return [*((level, _LOWER_REQUESTS) for level in below), (top, _REQUESTS - _LOWER_REQUESTS * len(below))]


def _name(level: int) -> str:
    return f"concurrency {level}"


def _alone(stand: ProofContext) -> Observation:
    began = time.monotonic()
    stand.notes[NAME] = baseline = _measured(stand)
    slot = Slot(NAME, "alone", "alone")
    count, exact = len(baseline.said), len(baseline.exact)
    measured = {
        "questions": count, "must_be_equal": exact, "weak": len(baseline.weak), "differ_alone": baseline.flips,
    }  # fmt: skip
    reason = f"{count} questions twice, one at a time: {baseline.flips or 'none'} answered differently the second time"
    reason += f"; {exact} must stay equal under load, {len(baseline.questions) - exact} are held against their rule"
    if baseline.weak:
        reason += f", {len(baseline.weak)} are not right alone and left out"
    verdict: Verdict = "passed"
    if baseline.faults:
        verdict, reason = "failed", "alone already: " + "; ".join(baseline.faults[:_KEPT])
    elif len(baseline.questions) < _LEAST_QUESTIONS:
        verdict = fault_or_weakness(stand, "wrong")
        reason = f"only {len(baseline.questions)} of {count} questions are answered rightly alone"
    response = {"weak": list(baseline.weak), "faults": list(baseline.faults)}
    seconds = time.monotonic() - began
    return observation_of(stand, slot, verdict, reason, seconds=seconds, measured=measured, response=response)


def _measured(stand: ProofContext) -> Baseline:
    questions = load_questions(stand)
    began, first, second = time.monotonic(), dict[str, LoadAnswer](), dict[str, LoadAnswer]()
    with pulsing(stand.tell).watching(
        lambda: f"  {pace(len(first) + len(second), 2 * len(questions), time.monotonic() - began, 'answers alone')}"
    ):
        for question in questions:
            first[question.name] = ask_alone(stand, question, stream=False, logprobs=True)
        for question in questions:
            second[question.name] = ask_alone(stand, question, stream=True)
    right = {name for name in first if not (_is_wrong(first[name]) or _is_wrong(second[name]))}
    unequal = {name for name in first if first[name].said != second[name].said}
    sure = {name for name in first if (first[name].sure or 0.0) >= CERTAIN_PROBABILITY}
    weak = fault_or_weakness(stand, "wrong") == "wrong" and not unequal & sure
    whole = {name for name in first if first[name].error is None and second[name].error is None}
    held = right | (sure & whole) if weak else right
    wrong_flips = {name for name in unequal if _is_wrong(first[name]) != _is_wrong(second[name])}
    strange = [(answer, _whose(answer, questions)) for answer in (*first.values(), *second.values())]
    faults = [f"{answer.question.name} {whose}" for answer, whose in strange if whose is not None]
    faults += [
        f"{name} is right once and wrong once, though every token was likely" for name in sorted(wrong_flips & sure)
    ]
    return Baseline(
        questions=tuple(question for question in questions if question.name in held),
        said={name: answer.said for name, answer in first.items()},
        exact=frozenset() if unequal & sure else frozenset(sure & held),
        weak=tuple(name for name in first if name not in held),
        flips=len(unequal),
        wrong_flips=len(wrong_flips),
        faults=tuple(faults),
    )


def _baseline(stand: ProofContext) -> Baseline:
    """Measured anew in a climb that was taken up after it."""
    if NAME not in stand.notes:
        stand.notes[NAME] = _measured(stand)
    baseline = stand.notes[NAME]
    assert isinstance(baseline, Baseline)
    return baseline


def _is_wrong(answer: LoadAnswer) -> bool:
    return answer.error is not None or answer.wrong is not None


def _whose(answer: LoadAnswer, questions: Sequence[LoadQuestion]) -> str | None:
    """Whose answer it is instead of its own, if that can be told by its number."""
    digits = answer.said.replace(",", "").replace(" ", "")
    own = answer.question
    if own.number is not None and own.number in digits:
        return None
    if twin := next((number for number in own.twins if number in digits), None):
        return f"says {twin}, which a text with the same beginning holds: a stale prefix"
    for other in questions:
        if other.number is not None and other.number != own.number and other.number in digits:
            if {other.kind, own.kind} <= _ONE_TEXT:
                continue  # the model may have taken one number of its text for another
            beside = "a request beside it" if other.name in answer.neighbours else "another request"
            return f"says {other.number}, which belongs to {beside} ({other.name}): cross-talk"
    return None


def _loading(level: int, count: int) -> Callable[[ProofContext], Observation]:
    def loaded(stand: ProofContext) -> Observation:
        began, baseline = time.monotonic(), _baseline(stand)
        stand.tell(f"  {count} questions at concurrency {level}")
        run = run_load(stand, baseline.questions, level, count)
        differing = _differing(run, baseline)
        verdict, reason = _judged(run, baseline, differing)
        if differing:
            reason += _afterwards(stand, differing) + _smallest(stand, baseline, level)
        measured = {
            "requests": len(run.answers), "differing": len(differing), "neighbours_left": run.left,
            "failed": sum(answer.error is not None for answer in run.answers),
            **({} if run.cache_usage is None else {"cache_usage": run.cache_usage}),
        }  # fmt: skip
        response = {"differences": [_shown(answer, baseline) for answer in differing[:_KEPT]]}
        slot, seconds = Slot(NAME, "load", _name(level)), time.monotonic() - began
        return observation_of(stand, slot, verdict, reason, seconds=seconds, measured=measured, response=response)

    return loaded


def _differing(run: LoadRun, baseline: Baseline) -> list[LoadAnswer]:
    """Answers that must be equal and are not; and wrong ones to several questions, where only the rule can tell."""
    answered = [answer for answer in run.answers if answer.error is None]
    exact = [
        answer
        for answer in answered
        if answer.question.name in baseline.exact and answer.said != baseline.said[answer.question.name]
    ]
    scored = [answer for answer in answered if answer.question.name not in baseline.exact]
    strange = [answer for answer in scored if _whose(answer, baseline.questions) is not None]
    wrong = [answer for answer in scored if answer.wrong is not None]
    rate = max(_BUDGET, baseline.wrong_flips / max(1, len(baseline.said)))
    several = len({answer.question.name for answer in wrong}) > 1
    return [*exact, *(wrong if several and exceeds(len(wrong), len(scored), rate) else strange)]


def _judged(run: LoadRun, baseline: Baseline, differing: Sequence[LoadAnswer]) -> tuple[Verdict, str]:
    count, errors = len(run.answers), [answer for answer in run.answers if answer.error is not None]
    at = f"at concurrency {run.concurrency}"
    refused = sum(answer.refused for answer in errors)
    if differing:
        kinds = ", ".join(
            f"{kind} {number}" for kind, number in Counter(answer.question.kind for answer in differing).most_common()
        )
        first = differing[0]
        why = _whose(first, baseline.questions) or first.wrong or "differs from its answer alone"
        shown = f"{first.question.name} {why}"
        return "failed", f"{at} {len(differing)} of {count} answers are not what they are alone ({kinds}); {shown}"
    if exceeds(len(errors) - refused, count, _BUDGET):
        first_error = next(str(answer.error) for answer in errors if not answer.refused)
        return "failed", f"{at} {len(errors) - refused} of {count} requests failed: {first_error}"
    if len(errors) == count:
        return "unsupported", f"{at} the server refused every request: {errors[0].error}"
    equal = sum(answer.question.name in baseline.exact for answer in run.answers if answer.error is None)
    scored = count - len(errors) - equal
    right = sum(
        answer.wrong is None and answer.error is None
        for answer in run.answers
        if answer.question.name not in baseline.exact
    )
    parts = [f"{count} answers {at}: {equal} equal to those alone"]
    parts += [f"{right} of {scored} others right"] if scored else []
    parts += [f"{refused} refused"] if refused else []
    parts += [f"{run.left} neighbours hung up", ruled_out_words(count - len(errors))]
    return "passed", "; ".join(parts)


def _full_cost(target: ProofTarget) -> ProbeCost:
    users, context = tested_concurrency(target.users), target.context_tokens or 0
    return ProbeCost(users * context, int(users * written_tokens(users, context) / users**0.5))


def _with_full_cache(stand: ProofContext) -> Observation:
    """Every user with a text that fills his context, all at once: where no page is left, one slip gives a page twice.

    What is wrong then is asked alone, and once more at once if it is right there: a weak model is not a broken engine.
    """
    began, slot = time.monotonic(), Slot(NAME, _FULL_CACHE, _FULL_CACHE)
    questions = whole_texts(stand, stand.target.context_tokens or 0)
    if not questions:
        return observation_of(stand, slot, "skipped", "the context holds no long text")
    stand.tell(f"  {len(questions)} texts that fill the context, at once")
    run = ask_together(stand, questions)
    wrong = [answer for answer in run.answers if answer.wrong is not None]
    differing = [answer for answer in wrong if _is_right_alone(stand, answer)]
    sure = [answer for answer in differing if _whose(answer, questions) is not None]
    if differing and not sure:
        again = {answer.question.name for answer in ask_together(stand, questions).answers if answer.wrong is not None}
        sure = [answer for answer in differing if answer.question.name in again]
    verdict, reason = _judged_full(run, sure, questions, weak=len(wrong) - len(differing), once=len(differing))
    measured = {
        "requests": len(run.answers), "differing": len(sure), "weak": len(wrong) - len(differing),
        **({} if run.usage is None else {"cache_usage": round(run.usage, 4)}),
    }  # fmt: skip
    response = {
        "differences": [{"question": seen.question.name, "under load": seen.said[:400]} for seen in sure[:_KEPT]]
    }
    seconds = time.monotonic() - began
    return observation_of(stand, slot, verdict, reason, seconds=seconds, measured=measured, response=response)


def _is_right_alone(stand: ProofContext, seen: LoadAnswer) -> bool:
    return not _is_wrong(ask_about_text(stand, seen.question, 1))


def _judged_full(
    run: FullCacheRun, sure: Sequence[LoadAnswer], questions: Sequence[LoadQuestion], *, weak: int, once: int
) -> tuple[Verdict, str]:
    """`weak`: not right alone either; `once`: right alone, and wrong at the first of two times at once."""
    count, errors = len(run.answers), [answer for answer in run.answers if answer.error is not None]
    at_once = f"{count} texts that fill the context, at once"
    if sure:
        why = _whose(sure[0], questions) or sure[0].wrong
        return "failed", f"{at_once}: {len(sure)} answers are wrong that are right alone; text {why}"
    if failures := [answer for answer in errors if not answer.refused]:
        return "failed", f"{at_once}: {len(failures)} requests failed: {failures[0].error}"
    if errors:
        return "unsupported", f"{at_once}: {len(errors)} were refused: {errors[0].error}"
    reason = f"{at_once}: {count - weak - once} numbers found"
    reason += f", {weak} not alone either" if weak else ""
    reason += f", {once} at the second time only" if once else ""
    if 2 * weak > count:
        return "unsupported", f"{reason}: too few for a verdict"
    if run.usage is None:
        return "unsupported", f"{reason}; the engine does not say how full its cache is"
    if run.usage < FULL:
        return "unsupported", f"{reason}; the cache was filled to {run.usage:.0%} only"
    return "passed", f"{reason}, the cache {run.usage:.0%} full"


def _afterwards(stand: ProofContext, differing: Sequence[LoadAnswer]) -> str:
    """Whether it heals when the load is gone."""
    first = differing[0].question
    again = ask_alone(stand, first, stream=False)
    return "; alone it is right again" if not _is_wrong(again) else "; and it stays wrong alone"


def _smallest(stand: ProofContext, baseline: Baseline, level: int) -> str:
    """The lowest concurrency that shows it, between the last that did not and this one."""
    below = [lower for lower in (1, *_LEVELS) if lower < level]
    low, high = below[-1], level
    for _ in range(_NARROWINGS):
        if high - low < 2:
            break
        middle = (low + high) // 2
        seen = _differing(run_load(stand, baseline.questions, middle, _NARROWING_REQUESTS), baseline)
        low, high = (low, middle) if seen else (middle, high)
    return f"; concurrency {high} is the smallest that shows it" + (f", {low} does not" if low > 1 else "")


def _shown(answer: LoadAnswer, baseline: Baseline) -> dict[str, Any]:
    return {
        "question": answer.question.name,
        "alone": baseline.said[answer.question.name][:400],
        "under load": answer.said[:400],
        "beside": list(answer.neighbours[:8]),
    }


def _alone_again(stand: ProofContext) -> Observation:
    """A cache that a load has spoiled keeps its wrong pages."""
    began, baseline = time.monotonic(), _baseline(stand)
    seen: list[LoadAnswer] = []
    with pulsing(stand.tell).watching(
        lambda: f"  {pace(len(seen), len(baseline.questions), time.monotonic() - began, 'answers alone')}"
    ):
        seen.extend(ask_alone(stand, question, stream=False) for question in baseline.questions)
    changed = [
        answer
        for answer in seen
        if answer.error is not None
        or (answer.said != baseline.said[answer.question.name] and answer.question.name in baseline.exact)
    ]
    slot, seconds = Slot(NAME, "alone again", "alone again"), time.monotonic() - began
    response = {"differences": [_shown(answer, baseline) for answer in changed[:_KEPT]]}
    if changed:
        why = changed[0].error or _whose(changed[0], baseline.questions) or "is not what it was before the load"
        reason = (
            f"after the load {len(changed)} of {len(seen)} answers are wrong alone; {changed[0].question.name} {why}"
        )
        return observation_of(stand, slot, "failed", reason, seconds=seconds, response=response)
    reason = f"{len(seen)} answers after the load are what they were before it"
    return observation_of(stand, slot, "passed", reason, seconds=seconds, response=response)


RUNG = LadderRung(NAME, "answers under load are what they are alone", _probes, in_order=True)

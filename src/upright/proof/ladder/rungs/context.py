"""The walk up the context: needles, a tool call and JSON on one prefill per length; then with the cache full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from upright.facts.records.evidence import Observation
from upright.proof.ladder.cache_filling import (
    FULL,
    MOST_FILLERS,
    CacheGauge,
    filler_requests,
    filler_shares,
    fillers_needed,
)
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.long_text import LongText, hiding_places, lengths, long_text
from upright.proof.ladder.observing import Judge, Judgement, SentQuestion, Slot, observation_of, observe
from upright.proof.ladder.prompts import Dialogue, Needles, Question
from upright.proof.ladder.rules import judge as rule
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.proof.ladder.tool_calls import judge_calls as judged_call
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards.token_counts import tokenizer_count

NAME = "context"
_LEAST_SHARE = 0.85
"""A prompt that the server counts shorter than this share of what was meant was cut on the way."""
_MARGIN_TOKENS = 64
_ASIDE_TOKENS = 40
"""The template and the question, about."""
_SENTENCE_TOKENS = 14.0
"""Until it is measured (assumed)."""
_ANSWER_TOKENS = 8
_NOT_RIGHT = ("failed", "wrong")
_READ_AGAIN = 0.5
"""Of the time to the first token on a new text: what was read anew takes about as long, what was kept a small part."""


@dataclass(frozen=True)
class _Place:
    """A question at one length of the walk."""

    name: str
    check: str
    length: int
    full: bool = False


def _probes(stand: ProofContext) -> list[Probe]:
    needles, context = stand.prompts.needles, stand.target.context_tokens
    if needles is None or context is None:
        why = (
            "the prompt set has no long texts" if needles is None else "the server does not say its context: --context"
        )
        return [
            Probe(
                "needle", "needle", lambda stand: observation_of(stand, Slot(NAME, "needle", "needle"), "skipped", why)
            )
        ]
    probes, before = [], 0
    for length in lengths(needles, context):
        probes += _walk(needles, length, length - before)
        before = length
    return probes + _full(needles, context, stand.target.users)


def _walk(needles: Needles, length: int, new_tokens: int) -> list[Probe]:
    """All questions on one text; the first of them pays for what the shorter text did not hold."""
    probes: list[Probe] = []
    for depth in needles.depths:
        place = _Place(f"needle {length} depth {depth}", "needle", length)
        new = 32 if probes else new_tokens
        cost = ProbeCost(prompt_tokens=new, answer_tokens=_ANSWER_TOKENS, shared_tokens=max(0, length - new))
        probes.append(_needle(place, depth, cost, f"{length:,} tokens"))
    for number, question in enumerate(needles.follow_ups, start=1):
        place = _Place(f"{question.check} {number} after {length}", question.check, length)
        probes.append(_follow_up(place, question, f"{length:,} tokens"))
    return probes


def _full(needles: Needles, context: int, users: int) -> list[Probe]:
    """Questions while other requests keep the rest of the cache full."""
    place = _Place("full cache needle", "full cache", context, full=True)
    cost = ProbeCost(context * max(users - 1, 0) + 32, _ANSWER_TOKENS, shared_tokens=context)
    probes = [_needle(place, needles.depths[0], cost, "full cache")]
    for number, question in enumerate(needles.follow_ups, start=1):
        place = _Place(f"full cache {question.check} {number}", "full cache", context, full=True)
        probes.append(_follow_up(place, question, "full cache"))
    return probes


def _needle(place: _Place, depth: float, cost: ProbeCost, group: str) -> Probe:
    def ask(stand: ProofContext) -> Observation:
        """One needle at that depth. Missed, the same one is asked for again, after another question on the same text:
        it is lost when it is missed twice, and each miss is told."""
        seen = _look(stand, place, depth, again=False)
        if not _is_miss(seen):
            return seen
        first, seen = seen.reason, _look(stand, place, depth, again=True)
        reason, misses = f"{seen.reason}, after a miss: {first}", 1 + _is_miss(seen)
        told = {"reason": reason, "measured": {**seen.measured, "misses": float(misses)}}
        if misses == 2 and _lost(stand) < _may_lose(stand):  # not passed either: it is shown among what was not
            told |= {"verdict": "unsupported", "reason": f"lost, as a small model may lose one: {reason}"}
        return seen.model_copy(update=told)

    return Probe(place.check, place.name, ask, cost, group)


def _is_miss(seen: Observation) -> bool:
    """A wrong answer; not a broken one, and not none."""
    return seen.verdict in _NOT_RIGHT and seen.guard is None and seen.response is not None


def _lost(stand: ProofContext) -> int:
    return sum(
        observation.measured.get("misses") == 2 for observation in stand.observations if observation.rung == NAME
    )


def _may_lose(stand: ProofContext) -> int:
    return stand.prompts.needles.may_lose if stand.prompts.needles else 0


def _look(stand: ProofContext, place: _Place, depth: float, *, again: bool) -> Observation:
    needles, text, count = _text(stand, place.length)
    fact = text.fact_at(depth, count)
    at = f"{100 * fact.place / count:.0f} %"

    def judge(answer: Answer) -> Judgement:
        if fact.number in answer.text.replace(",", "").replace(" ", ""):
            return "passed", f"found the number at {at} of {answer.prompt_tokens:,} tokens"
        answer_tail = answer.text.strip()[-32:]
        return "wrong", f"says {answer_tail!r}, not {fact.number}, at {at} of {answer.prompt_tokens:,} tokens"

    first = stand.prompts.smoke[0]
    before = ((first.ask, first.sample),) if again else ()
    seen = _ask(stand, place, needles.ask.format(key=fact.key), needles.max_tokens, judge, before)
    made = {**seen.request["long_text"], "key": fact.key, "place": fact.place}
    return seen.model_copy(update={"request": {**seen.request, "long_text": made}})


def _follow_up(place: _Place, question: Question | Dialogue, group: str) -> Probe:
    def ask(stand: ProofContext) -> Observation:
        def judge(answer: Answer) -> Judgement:
            if isinstance(question, Dialogue):
                return judged_call(answer, question, question.calls, stand.prompts)
            wrong = rule(question.rule, answer.text, question.expect)
            return ("wrong", wrong) if wrong else ("passed", f"{question.rule} after {answer.prompt_tokens:,} tokens")

        return _ask(stand, place, question.ask, question.max_tokens, judge)

    cost = ProbeCost(prompt_tokens=64, answer_tokens=question.about_tokens, shared_tokens=place.length)
    return Probe(place.check, place.name, ask, cost, group)


def _ask(
    stand: ProofContext,
    place: _Place,
    question: str,
    max_tokens: int,
    judge: Judge,
    before: tuple[tuple[str, str], ...] = (),
) -> Observation:
    """Right, and read whole: an engine that quietly cuts the prompt is found by its own count.

    `before` are questions and answers of the same conversation.
    """
    needles, text, count = _text(stand, place.length)

    def judge_whole(answer: Answer) -> Judgement:
        meant = count * _per_sentence(stand)
        if (answer.prompt_tokens or 0) < _LEAST_SHARE * meant:
            return (
                "failed",
                f"the server counted {answer.prompt_tokens:,} prompt tokens of about {meant:,.0f}: it cut them",
            )
        return judge(answer)

    asked = SentQuestion(
        _conversation(f"{needles.lead}{text.beginning(count)}", (*before, (question, ""))),
        max_tokens=max_tokens,
        stream=True,
        tools=stand.prompts.declared(needles.tools) or None,
        about_prompt_tokens=place.length,
    )
    slot = Slot(NAME, place.check, place.name)
    seen = _with_full_cache(stand, slot, asked, judge_whole) if place.full else observe(stand, slot, asked, judge_whole)
    if _is_too_long(seen, max_tokens) and "shorter" not in stand.notes:  # the estimate was off: once a little shorter
        stand.notes["shorter"] = True
        return _ask(stand, place, question, max_tokens, judge, before)
    _learn(stand, seen, needles, count)
    notice_prefix_cache(stand, seen, place.length)
    made = {"seed": stand.seed, "sentences": len(text.sentences), "hidden": stand.notes["hidden"], "first": count}
    return seen.model_copy(update={"request": {**seen.request, "long_text": made}})


def _conversation(text: str, turns: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    """The text stands before the first question; the last one waits for its answer."""
    messages = []
    for number, (question, reply) in enumerate(turns):
        messages.append({"role": "user", "content": question if number else f"{text}\n\n{question}"})
        messages.append({"role": "assistant", "content": reply})
    return messages[:-1]


def _is_too_long(seen: Observation, max_tokens: int) -> bool:
    """Refused, or cut before the room that was asked for was used: llama.cpp does the one, others the other."""
    if seen.response is None:
        return "HTTP 400" in seen.reason
    answer = Answer({}, seen.response, 0)
    return answer.finish_reason == "length" and (answer.completion_tokens or 0) < max_tokens


def _learn(stand: ProofContext, seen: Observation, needles: Needles, count: int) -> None:
    """A longer text is the better witness for what a sentence of the next one costs."""
    tokens = seen.measured.get("prompt_tokens")
    if tokens and seen.guard is None and seen.verdict != "failed" and count > stand.notes.get("witness", 0):
        stand.notes["witness"] = count
        stand.notes["per_sentence"] = (tokens - _ASIDE_TOKENS - _declared_tokens(stand, needles)) / count


def notice_prefix_cache(stand: ProofContext, seen: Observation, length: int) -> None:
    """The second question on a text is answered sooner, unless the server keeps no prefixes and reads it all again."""
    first = seen.measured.get("first_seconds")
    if first is None or seen.response is None:
        return
    before = stand.notes.setdefault("first seconds", {}).setdefault(length, first)
    if before is not first:
        kept = seen.measured.get("cached_tokens", 0) > 0
        stand.rates.reads_again = not kept and first > _READ_AGAIN * before


def _with_full_cache(stand: ProofContext, slot: Slot, asked: SentQuestion, judge: Judge) -> Observation:
    """Alone first: the fuller it gets by itself, the fewer others it takes."""
    with CacheGauge(stand.endpoint) as gauge:
        seen = observe(stand, slot, asked, judge)
    own = gauge.largest
    if not own:
        reason = "the engine does not say how full its cache is"
        return (
            seen if seen.verdict in _NOT_RIGHT else seen.model_copy(update={"verdict": "unsupported", "reason": reason})
        )
    usage, count = gauge.peak or 0.0, 0
    if seen.verdict not in _NOT_RIGHT and own < FULL:
        whole = own * asked.about_prompt_tokens / (seen.measured.get("prompt_tokens") or asked.about_prompt_tokens)
        count = fillers_needed(own, whole, gauge.slots)
        if count > MOST_FILLERS:
            reason = f"one request fills {own:.0%} of the cache: {count} more would be needed at once"
            return seen.model_copy(update={"verdict": "unsupported", "reason": reason})
        patience = 30 + 4 * count * asked.about_prompt_tokens / (stand.rates.prefill or 100)
        for share in filler_shares(count, own, whole):
            with (
                filler_requests(stand, count, share, asked.about_prompt_tokens, patience),
                CacheGauge(stand.endpoint) as gauge,
            ):
                seen = observe(stand, slot, asked, judge)
            usage = gauge.peak or 0.0
            if seen.verdict in _NOT_RIGHT or usage >= FULL:
                break
    measured = {**seen.measured, "cache_usage": round(usage, 4)}
    if seen.verdict == "passed" and usage < FULL:
        reason = f"the cache could be filled to {usage:.0%} only, with {count} others"
        return seen.model_copy(update={"verdict": "unsupported", "reason": reason, "measured": measured})
    return seen.model_copy(update={"reason": f"{seen.reason}, the cache {usage:.0%} full", "measured": measured})


def _text(stand: ProofContext, length: int) -> tuple[Needles, LongText, int]:
    """The walk's text, and how many of its sentences make a prompt of that length."""
    needles, context = stand.prompts.needles, stand.target.context_tokens
    assert needles is not None
    assert context is not None
    if "text" not in stand.notes:
        stand.notes["text"] = _written(stand, needles, context)
    text: LongText = stand.notes["text"]
    counts = stand.notes.setdefault(f"counts {_slack(stand)}", {})  # one a length, whatever is learned meanwhile
    return needles, text, counts.setdefault(length, min(_sentences(stand, needles, length), len(text.sentences)))


def _written(stand: ProofContext, needles: Needles, context: int) -> LongText:
    """Twice, where the engine's tokenizer can be asked: the first one tells what a sentence costs."""
    notes = stand.notes
    if "hidden" not in notes:  # else an interrupted climb is made again
        for draft in (True, False):
            counts = [_sentences(stand, needles, length) for length in lengths(needles, context)]
            notes["hidden"], notes["sentences"] = counts, int(1.1 * counts[-1])  # more than it will take
            if draft:
                _count(stand, needles, _made(stand, needles))
    return _made(stand, needles)


def _made(stand: ProofContext, needles: Needles) -> LongText:
    places = hiding_places(needles.depths, stand.notes["hidden"])
    return long_text(needles, stand.notes["sentences"], stand.seed, places)


def _sentences(stand: ProofContext, needles: Needles, length: int) -> int:
    """How many fit into that length, with the question and its answer."""
    room = max(needles.max_tokens, *(question.max_tokens for question in needles.follow_ups))
    tokens = min(length, (stand.target.context_tokens or length) - room)
    aside = _MARGIN_TOKENS + _declared_tokens(stand, needles)
    return max(len(needles.depths), int((tokens - aside) / (_per_sentence(stand) * _slack(stand))))


def _slack(stand: ProofContext) -> float:
    return 1.03 if "shorter" in stand.notes else 1.005


def _count(stand: ProofContext, needles: Needles, text: LongText) -> None:
    """What this very text costs, where the engine's tokenizer can be asked."""
    content = f"{needles.lead}{text.beginning(len(text.sentences))}"
    counted = tokenizer_count(stand.endpoint, [{"role": "user", "content": content}])
    if counted:
        stand.notes["per_sentence"] = (counted - _ASIDE_TOKENS) / len(text.sentences)


def _per_sentence(stand: ProofContext) -> float:
    """Facts are longer than plain sentences: a token a digit at worst, until the walk has learned its own figure."""
    learned: float | None = stand.notes.get("per_sentence")
    plain, needles = stand.tokens_per_sentence or _SENTENCE_TOKENS, stand.prompts.needles
    if learned is not None or needles is None:
        return learned or plain
    sentences = max((stand.target.context_tokens or 0) / plain, len(needles.keys))
    return plain + len(needles.keys) / sentences * (needles.digits + 4)


def _declared_tokens(stand: ProofContext, needles: Needles) -> int:
    """About three characters a token for the tools' JSON."""
    return len(str(stand.prompts.declared(needles.tools))) // 3 if needles.tools else 0


RUNG = LadderRung(NAME, "needles, a tool call and JSON at every length, then with a full cache", _probes, in_order=True)

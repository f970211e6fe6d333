"""Questions of a load: short ones, tool calls, and long texts with shared, forked or own prefixes.

Every text holds numbers that no other one has, so that an answer tells whose text it came from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.proof.ladder.long_text import LongText, Needle, long_text
from upright.proof.ladder.observing import SentQuestion
from upright.proof.ladder.prompts import Dialogue, Needles, Question
from upright.proof.ladder.rules import QUICK_RULES, judge
from upright.proof.ladder.rung import ProofContext
from upright.proof.ladder.tool_calls import judge_calls
from upright.serving.endpoint.client import Answer

_TEXT_SHARE = 0.4
"""Of the context: what the longest text takes."""
_MOST_TEXT_TOKENS = 8_192
_READING_SECONDS = 15.0
"""What the first reading of the longest text may take."""
_OWN_SHARES = (0.9, 0.5, 0.25, 0.12, 0.06)
"""Of the longest text: texts that begin like no other."""
SENTENCE_TOKENS = 14.0
"""Until it is measured (assumed)."""
_FORKS = 3
"""Texts that begin as the shared one does, and have another number further on."""
_LEAST_SENTENCES = 8
_ABOUT_NUMBER_TOKENS = 16


@dataclass(frozen=True)
class LoadQuestion:
    """One question, put alone and among others."""

    name: str
    kind: str
    """short, tool call, shared prefix, forked prefix or own text."""
    asked: SentQuestion
    wrong: Callable[[Answer], str | None]
    about_tokens: int
    number: str | None = None
    """What only an answer to this question holds."""
    twins: tuple[str, ...] = ()
    """Numbers that texts with the same beginning hold for the same key."""


def load_questions(stand: ProofContext) -> tuple[LoadQuestion, ...]:
    return (*_short(stand), *_tool_calls(stand), *_long(stand))


def answer_content(answer: Answer) -> str:
    """What two answers are compared by: the calls, or the text."""
    calls = [call.get("function") for call in answer.tool_calls]
    if not calls:
        return answer.text.strip()
    return json.dumps([_plain_call(call) for call in calls], ensure_ascii=False, sort_keys=True)


def _plain_call(call: Any) -> list[Any]:
    function = call if isinstance(call, dict) else {}
    arguments = function.get("arguments")
    try:
        return [function.get("name"), arguments if isinstance(arguments, dict) else parse_json(str(arguments))]
    except ValueError:
        return [function.get("name"), arguments]


def _short(stand: ProofContext) -> Iterator[LoadQuestion]:
    for number, question in enumerate(stand.prompts.smoke, start=1):
        if question.rule in QUICK_RULES and not question.enforce_schema and "instant" in question.modes:
            asked = SentQuestion([{"role": "user", "content": question.ask}], max_tokens=question.max_tokens)
            yield LoadQuestion(f"{question.check} {number}", "short", asked, _by_rule(question), question.about_tokens)


def _by_rule(question: Question) -> Callable[[Answer], str | None]:
    return lambda answer: judge(question.rule, answer.text, question.expect)


def _tool_calls(stand: ProofContext) -> Iterator[LoadQuestion]:
    for number, dialogue in enumerate(stand.prompts.dialogues, start=1):
        if dialogue.choice == "auto" and dialogue.calls and "instant" in dialogue.modes:
            asked = SentQuestion(
                [{"role": "user", "content": dialogue.ask}],
                max_tokens=dialogue.max_tokens,
                tools=stand.prompts.declared(dialogue.tools),
            )
            name = f"tool call {dialogue.check} {number}"
            yield LoadQuestion(name, "tool call", asked, _by_calls(stand, dialogue), dialogue.about_tokens)


def _by_calls(stand: ProofContext, dialogue: Dialogue) -> Callable[[Answer], str | None]:
    def wrong(answer: Answer) -> str | None:
        verdict, reason = judge_calls(answer, dialogue, dialogue.calls, stand.prompts)
        return reason if verdict in ("failed", "wrong") else None

    return wrong


def _long(stand: ProofContext) -> Iterator[LoadQuestion]:
    needles = stand.prompts.needles
    sentences = int(_text_tokens(stand) / (stand.tokens_per_sentence or SENTENCE_TOKENS))
    if needles is None or sentences < _LEAST_SENTENCES:
        return
    taken = set[str]()
    text = _unlike(needles, sentences, stand.seed + 101, taken)
    for fact in text.facts[:-1]:
        yield _needle(stand, f"shared text, {fact.key}", "shared prefix", text, fact)
    branches = [(text, text.facts[-1]), *(_forked(needles, text, stand.seed, taken) for _ in range(_FORKS))]
    numbers = [fact.number for _, fact in branches]
    for number, (branch, fact) in enumerate(branches):
        twins = tuple(other for other in numbers if other != fact.number)
        yield _needle(stand, f"fork {number}, {fact.key}", "forked prefix", branch, fact, twins)
    for number, share in enumerate(_OWN_SHARES, start=1):
        count = int(share * sentences)
        if count >= _LEAST_SENTENCES:
            own = _unlike(needles, count, stand.seed + 200 + number, taken)
            yield _needle(stand, f"text {number}, {own.facts[-1].key}", "own text", own, own.facts[-1])


def own_text(stand: ProofContext, name: str, sentences: int, seed: int, taken: set[str]) -> LoadQuestion | None:
    """One text that has no number of those `taken`, and a question about the middle of it."""
    needles = stand.prompts.needles
    if needles is None or sentences < _LEAST_SENTENCES:
        return None
    text = _unlike(needles, sentences, seed, taken)
    return _needle(stand, name, "own text", text, text.facts[len(text.facts) // 2])


def _text_tokens(stand: ProofContext) -> float:
    tokens = min(_TEXT_SHARE * (stand.target.context_tokens or 0), _MOST_TEXT_TOKENS)
    return min(tokens, _READING_SECONDS * stand.rates.prefill) if stand.rates.prefill else tokens


def _unlike(needles: Needles, sentences: int, seed: int, taken: set[str]) -> LongText:
    """A text whose numbers are in none of the others."""
    for step in range(100):
        text = long_text(needles, sentences, seed + 1_000 * step)
        numbers = {fact.number for fact in text.facts}
        if taken.isdisjoint(numbers):
            taken |= numbers
            return text
    raise AssertionError("a hundred texts share a number with one of a dozen")


def _forked(needles: Needles, text: LongText, seed: int, taken: set[str]) -> tuple[LongText, Needle]:
    """The same text as far as its last fact, which has another number there."""
    last, chance = text.facts[-1], random.Random(f"fork {seed}")  # noqa: S311 (not a secret)
    number = last.number
    while number in taken:
        number = "".join(chance.sample("123456789", min(needles.digits, 9)))
    taken.add(number)
    sentences = list(text.sentences)
    sentences[last.place] = needles.fact.format(key=last.key, number=number)
    changed = replace(last, number=number)
    return LongText(tuple(sentences), (*text.facts[:-1], changed)), changed


def _needle(
    stand: ProofContext, name: str, kind: str, text: LongText, fact: Needle, twins: tuple[str, ...] = ()
) -> LoadQuestion:
    needles = stand.prompts.needles
    assert needles is not None
    content = f"{needles.lead}{text.beginning(len(text.sentences))}\n\n{needles.ask.format(key=fact.key)}"

    def wrong(answer: Answer) -> str | None:
        digits = answer.text.replace(",", "").replace(" ", "")
        return None if fact.number in digits else f"does not say {fact.number}"

    asked = SentQuestion(
        [{"role": "user", "content": content}],
        max_tokens=needles.max_tokens,
        about_prompt_tokens=int(len(text.sentences) * (stand.tokens_per_sentence or SENTENCE_TOKENS)),
    )
    return LoadQuestion(name, kind, asked, wrong, _ABOUT_NUMBER_TOKENS, fact.number, twins)

"""Broken answers that come with HTTP 200 are named; sane ones, however odd they look, are left alone."""

from __future__ import annotations

import base64
import json
import random
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.conftest import ROOT
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards import GUARDS, complaint, complaints, count_mismatch
from upright.serving.endpoint.guards.answers import drift, flood, loop
from upright.serving.endpoint.guards.token_counts import uneven_growth

CHINESE = "春天来了，河边的柳树发芽了。孩子们在公园里放风筝，老人们坐在长椅上聊天。远处的山还有雪，可是风已经不冷了。"
TEXT = "the harbour was quiet when old letters arrived and nobody knew who had sent them across seven winters"
WORDS = TEXT.split()


def answer(text: str, *, request: dict[str, Any] | None = None, **changes: Any) -> Answer:
    message = {"content": text, **changes.pop("message", {})}
    choice = {"message": message, "finish_reason": "stop", **changes.pop("choice", {})}
    usage = {"prompt_tokens": 9, "completion_tokens": 7}
    response = {"choices": [choice], "usage": usage, **changes}
    return Answer(request=request or {}, response=response, seconds=0.1)


def guards(made: Answer, scripts: tuple[str, ...] | None = ("Latin",)) -> set[str]:
    return {each.guard for each in complaints(made, scripts=scripts)}


def prose(seed: int, words: int) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(words))


SANE = {
    "a sentence": "The capital of France is Paris.",
    "a ruler": "| a | b |\n|---|---|\n" + "-" * 80 + "\n",
    "a heading": "#" * 79,
    "a stub": "def f():\n" + "    pass\n" * 3,
    "a wide table": "|" + " --- |" * 14 + "\n|" + " 0.0 |" * 14,
    "a long table": "\n".join(f"| {n} | {n * n} | ok |" for n in range(300)),
    "a list": "\n".join(f"{n}. Item number {n}" for n in range(1, 300)),
    "numbers": ", ".join(map(str, range(2000))),
    "a zero matrix": str([[0] * 16 for _ in range(16)]),
    "a hex dump": "\n".join("00000000 " * 8 for _ in range(12)),
    "base64": base64.b64encode(random.Random(1).randbytes(4000)).decode(),
    "base64 of nothing": base64.b64encode(bytes(120) + random.Random(1).randbytes(90)).decode(),
    "JSON": json.dumps([{"id": n, "name": f"user {n}", "tags": []} for n in range(80)], indent=2),
    "a refrain": "no no no, la la la la la la",
    "Greek in mathematics": "Let α and β be angles, and σ² their variance; then Σ α = Ω.",
    "accents": "Śląsk, Łódź, São Paulo, Göteborg, Reykjavík, Đà Nẵng, Çeşme, Ærø.",
    "a name in its own script": "The city is called 北京 by those who live there, and it is the capital.",
    "progress": "Loading" + "." * 150,
}


@pytest.mark.parametrize("text", SANE.values(), ids=SANE)
def test_sane_answers_pass(text: str) -> None:
    assert guards(answer(text)) == set()
    assert guards(answer(text, choice={"finish_reason": "length"})) == set()


def test_chinese_prose_is_sane_where_it_was_asked_for() -> None:
    assert guards(answer(CHINESE * 2), ("Han",)) == set()
    assert guards(answer(CHINESE * 2), None) == set()
    assert guards(answer(CHINESE), ("Latin",)) == {"drift"}


BROKEN = {
    "nothing": (answer(""), "empty", "empty answer"),
    "spaces": (answer("   \n"), "empty", "empty answer"),
    "!!!!": (answer("Well " + "!" * 24), "flood", "a flood of '!'"),
    "a ruler without an end": (answer("=" * 300), "flood", "a flood of '='"),
    "a loop of words": (answer("the answer is " * 8), "loop", "a loop of"),
    "a loop of a paragraph": (answer("".join(f"{prose(3, 30)}\n" for _ in range(8))), "loop", "8 times"),
    "a loop after a good beginning": (answer(prose(1, 400) + " and so on and on" * 12), "loop", "a loop of"),
    "a short loop that was cut": (
        answer("Sure. " + "I will help you with that. " * 5, choice={"finish_reason": "length"}), "loop", "5 times",
    ),
    "bytes": (answer("caf\ufffd"), "utf-8", "invalid UTF-8"),
    "another script half-way": (answer(prose(2, 90) + CHINESE), "drift", "Han letters"),
    "Cyrillic": (answer("Ответ на ваш вопрос такой: Париж."), "drift", "Cyrillic letters"),
    "leaked tokens": (answer("<|tool_call_begin|>functions.f:0"), "leak", "<|tool_call_begin|>"),
    "leaked tokens of DeepSeek": (answer("<｜tool▁calls▁begin｜>x"), "leak", "the parser did not take it"),
    "only thoughts": (answer("", message={"reasoning": "Paris."}), "reasoning-only", "all of it is in the reasoning"),
    "thoughts in a loop": (
        answer("Paris", message={"reasoning_content": "wait, but maybe, " * 20}), "loop", "in the reasoning",
    ),
    "no finish_reason": (answer("Paris", choice={"finish_reason": None}), "cut", "the answer was cut"),
    "no choice": (answer("", choices=[]), "cut", "the answer was cut"),
    "no [DONE]": (answer("Paris", stream={"done": False, "cut": True}), "cut", "without [DONE]"),
    "a piece that is no JSON": (answer("Paris", broken_chunk='{"choi'), "cut", "is no JSON"),
    "no usage": (answer("Paris", usage=None), "usage", "tokens were not counted"),
    "a usage of nothing": (answer("Paris", usage={"prompt_tokens": 0, "completion_tokens": 3}), "usage", "not counted"),
    "no logprobs": (answer("Paris", request={"logprobs": True}), "logprobs", "none came"),
    "NaN": (
        answer("x", request={"logprobs": True}, choice={"logprobs": {"content": [{"logprob": float("nan")}]}}),
        "logprobs", "token 1 is nan",
    ),
    "a probability over one": (
        answer("x", request={"logprobs": True}, choice={"logprobs": {"content": [{"logprob": 0.7}]}}),
        "logprobs", "above zero",
    ),
    "truncated arguments": (
        answer("", message={"tool_calls": [{"function": {"name": "f", "arguments": '{"city": "Par'}}]}),
        "arguments", "arguments of f are no JSON",
    ),
    "arguments that are a list": (
        answer("", message={"tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]}),
        "arguments", "no JSON object",
    ),
    "a call without a name": (answer("", message={"tool_calls": [{"function": {}}]}), "arguments", "without a name"),
    "calls announced and absent": (
        answer("Hm.", choice={"finish_reason": "tool_calls"}), "arguments", "there is no call",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_answers_are_named(name: str) -> None:
    made, guard, words = BROKEN[name]
    found = list(complaints(made, scripts=("Latin",)))
    assert [each for each in found if each.guard == guard and words in each.what], found


def test_every_guard_was_seen_to_speak() -> None:
    assert {guard for _, guard, _ in BROKEN.values()} | {"count"} == set(GUARDS)


def test_a_tool_call_needs_no_text() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    assert complaint(answer("", message={"tool_calls": [call]}, choice={"finish_reason": "tool_calls"})) is None


@pytest.mark.parametrize(("counted", "expected", "wrong"), [(40, 40, False), (41, 40, False), (512, 4000, True)])
def test_a_count_is_held_against_another(counted: int, expected: int, wrong: bool) -> None:
    assert bool(count_mismatch(counted, expected)) is wrong


@pytest.mark.parametrize(("counts", "wrong"), [((30, 130, 230), False), ((30, 130, 140), True), ((50, 50, 50), True)])
def test_the_same_text_counts_the_same(counts: tuple[int, int, int], wrong: bool) -> None:
    assert bool(uneven_growth(counts)) is wrong


@given(some.text(), some.sampled_from([None, ("Latin",), ("Han", "Latin")]))
def test_guards_take_any_text(text: str, scripts: tuple[str, ...] | None) -> None:
    list(complaints(answer(text), scripts=scripts))


NAMES = some.sampled_from(["choices", "message", "usage", "content", "tool_calls", "logprobs", "function"])
LEAVES = some.none() | some.booleans() | some.integers() | some.text()
BODIES = some.recursive(LEAVES, lambda each: some.lists(each) | some.dictionaries(NAMES, each))


@given(BODIES)
def test_guards_take_any_response(body: Any) -> None:
    response = body if isinstance(body, dict) else {"choices": body}
    list(complaints(Answer({"logprobs": True}, response, 0.0), scripts=("Latin",)))


@given(some.integers(0, 10_000), some.integers(9, 40), some.text("abcdefgh ,.", min_size=12, max_size=300))
def test_a_loop_is_found_wherever_it_begins(seed: int, times: int, unit: str) -> None:
    if len(set(unit)) < 3 or not unit.strip() or unit in (unit + unit)[1:-1]:
        return
    assert loop(prose(seed, seed % 90) + unit * times) is not None


@given(some.integers(0, 10_000), some.sampled_from("!?;:&%$@<>()"), some.integers(24, 500))
def test_a_flood_is_found_wherever_it_is(seed: int, sign: str, times: int) -> None:
    text = prose(seed, seed % 60)
    assert flood(text + sign * times + text) is not None
    assert flood(text) is None


@given(some.integers(0, 10_000), some.integers(1, 600))
def test_prose_is_never_accused(seed: int, words: int) -> None:
    text = prose(seed, words)
    assert (flood(text), loop(text), loop(text, cut=True), drift(text, ("Latin",))) == (None, None, None, None)


def test_the_false_alarms_on_real_texts() -> None:
    """Python's own library and these docs, every second piece of an answer's size."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [*sorted(library.glob("*.py")), *sorted((ROOT / "docs").glob("*.md"))]
    pieces = [
        text[start : start + 4000]
        for text in (file.read_text(errors="replace").replace("\ufffd", "") for file in files)
        for start in range(0, len(text), 8000)
    ]
    accused = [piece for piece in pieces if guards(answer(piece or "x")) - {"leak"}]
    assert len(pieces) > 700
    assert not accused, [next(complaints(answer(piece))) for piece in accused]

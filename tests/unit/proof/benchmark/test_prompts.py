"""Prompts are as long as the server says, whatever its tokenizer does with words."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from upright.base.errors import EndpointError
from upright.facts.records.benchmark import Shape
from upright.proof.benchmark.load import LoadTarget, Message
from upright.proof.benchmark.prompts import Prompts, gauge

TARGET = LoadTarget("http://127.0.0.1:9", "m")


def words(messages: list[Message]) -> int:
    return 23 + sum(len(message["content"].split()) for message in messages)


def letters(messages: list[Message]) -> int:
    """A byte-level tokenizer of pairs: a word of n letters costs n // 2 + 1."""
    return 7 + sum(len(word) // 2 + 1 for message in messages for word in message["content"].split())


@pytest.mark.parametrize("count", [words, letters])
@pytest.mark.parametrize("tokens", [64, 255, 256, 1000, 8192])
def test_a_prompt_has_the_tokens_that_were_asked_for(count: Callable[[list[Message]], int], tokens: int):
    text, said = gauge(count).text(tokens, random.Random(1))
    assert count([{"role": "user", "content": text}]) == said == tokens


@pytest.mark.parametrize("count", [words, letters])
def test_a_question_stands_at_the_end_and_is_counted(count: Callable[[list[Message]], int]):
    question = "Count from 1 to 300, one number per line."
    text, said = gauge(count, question=question).text(256, random.Random(1))
    assert text.endswith(f"\n{question}")
    assert count([{"role": "user", "content": text}]) == said == 256


def test_where_every_word_is_a_token_two_questions_are_enough():
    asked = []

    def count(messages: list[Message]) -> int:
        asked.append(messages)
        return words(messages)

    assert gauge(count).cost == 1
    assert len(asked) == 2


def test_a_server_that_tokenizes_is_asked_that_way_and_held_against_its_answers():
    asked = []

    def count(messages: list[Message]) -> int:
        asked.append(messages)
        return letters(messages)

    def tokenize(text: str) -> int:
        return letters([{"content": text}]) - 7 + 1  # with a token of its own at the start

    assert gauge(count, tokenize) == gauge(letters)
    assert len(asked) == 2
    assert gauge(count, lambda text: 2 * len(text.split())) == gauge(letters), "not believed"


def test_a_server_that_counts_nothing_alike_is_told_so():
    numbers = iter(range(1, 1000, 3))
    with pytest.raises(EndpointError, match="counts no word twice alike"):
        gauge(lambda messages: 1 + 8 * next(numbers) + (len(messages[0]["content"]) > 2))


def contents(shape: Shape, seed: str = "0 run") -> list[str]:
    source = Prompts(TARGET, shape, gauge(words), seed)
    found = []
    while (request := source.first()) is not None:
        body = json.loads(request.payload.partition(b"\r\n\r\n")[2])
        assert request.prompt_tokens == words(body["messages"])
        found.append(body["messages"][0]["content"])
    return found


def test_fresh_prompts_share_one_word_and_shared_ones_their_beginning():
    shape = Shape(prompt_tokens=256, output_tokens=1, concurrency=4, requests=40)
    fresh = contents(shape)
    assert len({tuple(text.split()[:9]) for text in fresh}) == 40
    shared = contents(shape.model_copy(update={"shared_tokens": 100}))
    assert len({tuple(text.split()[:101]) for text in shared}) == 1
    assert len({tuple(text.split()[:110]) for text in shared}) == 40


def test_the_same_seed_gives_the_same_prompts():
    shape = Shape(prompt_tokens=128, output_tokens=1, concurrency=2, requests=3)
    assert contents(shape) == contents(shape)
    assert not set(contents(shape)) & set(contents(shape, "0 other"))


def test_a_conversation_holds_all_that_was_said():
    shape = Shape(prompt_tokens=64, output_tokens=8, concurrency=1, requests=1, turns=3, turn_tokens=16)
    source = Prompts(TARGET, shape, gauge(words), "0 run")
    request = source.first()
    for turn in range(2, 4):
        request = source.following(request, f"answer {turn - 1}")
        said = json.loads(request.payload.partition(b"\r\n\r\n")[2])["messages"]
        assert [message["role"] for message in said] == ["user", "assistant"] * (turn - 1) + ["user"]
        assert said[-2]["content"] == f"answer {turn - 1}"
        assert len(said[-1]["content"].split()) == 16
    assert source.following(request, "the end") is None
    assert source.first() is None


def test_the_key_is_in_the_header_and_in_no_words():
    target = LoadTarget("http://h:1", "m", key="sk-secret")
    assert "sk-secret" not in repr(target)
    assert b"Authorization: Bearer sk-secret\r\n" in target.request([], 1)

"""Broken answers that come with HTTP 200."""

from __future__ import annotations

import pytest

from upright.endpoint.client import Answer
from upright.endpoint.guards import complaint


def answer(text: str, **changes: object) -> Answer:
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    response = {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 7}, **changes}
    return Answer(request={}, response=response, seconds=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "The capital of France is Paris.",
        "| a | b |\n|---|---|\n" + "-" * 80 + "\n",
        "#" * 79,
        "def f():\n" + "    pass\n" * 3,
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        "no no no",
    ],
)
def test_sane_answers_pass(text: str):
    assert complaint(answer(text)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("Well " + "!" * 24, "a flood of '!'"),
        ("=" * 300, "a flood of '='"),
        ("the answer is " * 8, "a loop of"),
        ("caf\ufffd", "invalid UTF-8"),
    ],
)
def test_broken_text_is_named(text: str, reason: str):
    assert reason in (complaint(answer(text)) or "")


def test_a_cut_or_uncounted_answer_is_broken():
    cut = {"message": {"content": "Paris"}, "finish_reason": None}
    assert "cut" in (complaint(answer("", choices=[cut])) or "")
    assert "usage" in (complaint(answer("Paris", usage=None)) or "")
    assert "cut" in (complaint(answer("", choices=[])) or "")

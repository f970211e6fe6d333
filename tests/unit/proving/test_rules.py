"""Every rule passes what is right and fails what is wrong."""

from __future__ import annotations

import pytest

from upright.errors import UsageError
from upright.proving.prompts import SETS, prompt_set
from upright.proving.rules import RULES, judge

RIGHT = [
    ("says", "The capital of France is Paris.", "paris"),
    ("says", "Hydrogen and oxygen.", ["hydrogen", "oxygen"]),
    ("number", "17 + 25 = 42", 42),
    ("number", "It is 1,188.", 1188),
    ("number", "-3.5", -3.5),
    ("json", '{"name": "Alice", "age": 30}', {"name": "text", "age": "number"}),
    ("json", '```json\n{"ok": true, "errors": []}\n```', {"ok": "flag", "errors": "list"}),
]
WRONG = [
    ("says", "The capital of France is Lyon.", "Paris", "does not say 'Paris'"),
    ("says", "Hydrogen.", ["hydrogen", "oxygen"], "does not say 'oxygen'"),
    ("number", "I cannot say.", 42, "no number"),
    ("number", "42 or rather 43", 42, "answered 43"),
    ("json", "Sure! Here it is: {}", {}, "not JSON"),
    ("json", '{"name": "Alice", "age": 30', {"name": "text", "age": "number"}, "not JSON"),
    ("json", "[1]", {}, "a JSON list"),
    ("json", '{"name": "Alice"}', {"name": "text", "age": "number"}, "keys are ['name']"),
    ("json", '{"name": "Alice", "age": "30"}', {"name": "text", "age": "number"}, "age is '30', not a number"),
    ("json", '{"name": "Alice", "age": true}', {"name": "text", "age": "number"}, "age is True, not a number"),
]


@pytest.mark.parametrize(("rule", "text", "expect"), RIGHT)
def test_right_answers_pass(rule: str, text: str, expect: object):
    assert judge(rule, text, expect) is None


@pytest.mark.parametrize(("rule", "text", "expect", "reason"), WRONG)
def test_wrong_answers_fail_with_the_reason(rule: str, text: str, expect: object, reason: str):
    assert reason in (judge(rule, text, expect) or "")


def test_every_rule_was_seen_to_pass_and_to_fail():
    assert {case[0] for case in RIGHT} == {case[0] for case in WRONG} == set(RULES)


@pytest.mark.parametrize("name", SETS)
def test_every_question_of_every_set_names_a_rule_and_can_fail(name: str):
    for question in prompt_set(name).questions:
        assert judge(question.rule, "!!!!!!!!", question.expect) is not None


def test_an_unknown_set_or_rule_is_misuse():
    with pytest.raises(UsageError, match="no prompt set named huge"):
        prompt_set("huge")
    with pytest.raises(UsageError, match="no rule named vibes"):
        judge("vibes", "", None)

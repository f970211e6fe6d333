"""Every rule passes what is right and fails what is wrong."""

from __future__ import annotations

import pytest

from upright.base.errors import UsageError
from upright.proof.ladder.rules import RULES, judge

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["n"],
    "additionalProperties": False,
}
RIGHT = [
    ("says", "The capital of France is Paris.", "paris"),
    ("says", "Hydrogen and oxygen.", ["hydrogen", "oxygen"]),
    ("number", "17 + 25 = 42", 42),
    ("number", "It is 1,188.", 1188),
    ("number", "-3.5", -3.5),
    ("json", '{"name": "Alice", "age": 30}', {"name": "text", "age": "number"}),
    ("json", '```json\n{"ok": true, "errors": []}\n```', {"ok": "flag", "errors": "list"}),
    ("schema", '{"n": 3, "tags": ["a"]}', SCHEMA),
    ("code", "Here:\n```python\ndef twice(n):\n    return 2 * n\n```\nDone.", "assert twice(4) == 8"),
    ("code", "def twice(n):\n    return 2 * n", "assert twice(4) == 8"),
    ("python", "```python\nclass A:\n    x = 1\n\nclass B:\n    y = 2\n```", {"classes": 2}),
    ("python", "```python\nclass A:\n    x = 1\n\nclass B:\n    y = (2,", {"classes": 1}),
    ("counts", "1, 2, 3, 4, 5", {"from": 1, "to": 5}),
    ("counts", "1\n2\n3\n4\n5\n1", {"from": 1, "to": 9, "cut": True}),
]
WRONG = [
    ("says", "The capital of France is Lyon.", "Paris", "does not say 'Paris'"),
    ("says", "Hydrogen.", ["hydrogen", "oxygen"], "does not say 'oxygen'"),
    ("number", "I cannot say.", 42, "no number"),
    ("number", "42 or rather 43", 42, "said '42 or rather 43', not 42"),
    ("json", "Sure! Here it is: {}", {}, "not JSON"),
    ("json", '{"name": "Alice", "age": 30', {"name": "text", "age": "number"}, "not JSON"),
    ("json", "[1]", {}, "a JSON list"),
    ("json", '{"name": "Alice"}', {"name": "text", "age": "number"}, "keys are ['name']"),
    ("json", '{"name": "Alice", "age": "30"}', {"name": "text", "age": "number"}, "age is '30', not a number"),
    ("json", '{"name": "Alice", "age": true}', {"name": "text", "age": "number"}, "age is True, not a number"),
    ("schema", '{"n": true}', SCHEMA, "n is True, not integer"),
    ("schema", '{"n": 1, "tags": ["c"]}', SCHEMA, "tags[0] is 'c', not one of"),
    ("schema", '{"tags": []}', SCHEMA, "lacks n"),
    ("schema", '{"n": 1, "tags": ["a", "b", "a"]}', SCHEMA, "tags has 3 items"),
    ("schema", '{"n": 1, "m": 2}', SCHEMA, "which the schema does not know"),
    ("schema", "Rome is a city.", SCHEMA, "not JSON"),
    ("code", "```python\ndef twice(n):\n    return n\n```", "assert twice(4) == 8, 'wrong'", "its code fails"),
    ("code", "I would rather not.", "assert twice(4) == 8", "SyntaxError"),
    ("python", "```python\nclass A:\n    x = 1\n```", {"classes": 2}, "1 classes, not 2"),
    ("python", "!!!!", {"classes": 0}, "does not parse"),
    ("counts", "1, 2, 4, 5", {"from": 1, "to": 5}, "4 where 3 belongs"),
    ("counts", "1, 2, 3", {"from": 1, "to": 5}, "ends at 3, not 5"),
    ("counts", "nothing", {"from": 1, "to": 5}, "ends at nothing"),
]


@pytest.mark.parametrize(("rule", "text", "expect"), RIGHT)
def test_right_answers_pass(rule: str, text: str, expect: object):
    assert judge(rule, text, expect) is None


@pytest.mark.parametrize(("rule", "text", "expect", "reason"), WRONG)
def test_wrong_answers_fail_with_the_reason(rule: str, text: str, expect: object, reason: str):
    assert reason in (judge(rule, text, expect) or "")


def test_every_rule_was_seen_to_pass_and_to_fail():
    assert {case[0] for case in RIGHT} == {case[0] for case in WRONG} == set(RULES)


def test_an_unknown_rule_is_misuse():
    with pytest.raises(UsageError, match="no rule named vibes"):
        judge("vibes", "", None)

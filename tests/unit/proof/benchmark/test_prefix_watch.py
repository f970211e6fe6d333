from __future__ import annotations

from typing import Any

import pytest

from upright.proof.benchmark.prefix_watch import Departure, PrefixWatch

SYSTEM = "You are a careful agent. " * 40
TOOLS = [{"name": "read", "description": "reads a file"}, {"name": "write", "description": "writes a file"}]
ASKED = {"role": "user", "content": "What does the file say?"}
SAID = {"role": "assistant", "content": "It says that all is well."}
NEXT = {"role": "user", "content": "And the other one?"}


def _body(*messages: dict[str, Any], system: str = SYSTEM, tools: list[dict[str, Any]] = TOOLS) -> dict[str, Any]:
    return {"tools": tools, "system": system, "messages": list(messages)}


def _departure(*bodies: dict[str, Any]) -> Departure | None:
    watch = PrefixWatch(lambda told: None)
    return [watch.began(body) for body in bodies][-1]


@pytest.mark.parametrize(
    "bodies",
    [
        [_body(ASKED), _body(ASKED, SAID, NEXT)],
        [_body(ASKED), _body({"role": "user", "content": "Write a poem."})],
        [_body(ASKED, SAID, NEXT), _body(ASKED, SAID, {"role": "user", "content": "Thank you."})],
        [_body(ASKED, SAID, NEXT), _body({"role": "user", "content": "Summarise."}, system="You write titles.")],
        [_body(ASKED, SAID, NEXT), {"messages": [{"role": "user", "content": "A title for it?"}]}],
        [_body(ASKED), _body({"role": "user", "content": [{"type": "text", "text": ASKED["content"]}]})],
        [
            _body({"role": "user", "content": [{"type": "image", "data": "00"}]}),
            _body({"role": "user", "content": [{"type": "image", "data": "00", "cache_control": {"type": "x"}}]}, SAID),
        ],
        [_body(ASKED), _body({"role": "user", "content": "Other."}), _body(ASKED, SAID, NEXT)],
    ],
    ids=["next turn", "other task", "edited", "other agent", "no tools", "as blocks", "rolling mark", "two at once"],
)  # fmt: skip
def test_what_a_cache_finds_is_no_departure(bodies: list[dict[str, Any]]):
    assert _departure(*bodies) is None


def _dated(day: int) -> str:
    return f"{SYSTEM}Today is day {day}.{SYSTEM}"


def test_the_first_character_that_differs_is_told():
    found = _departure(_body(ASKED, system=_dated(1)), _body(ASKED, SAID, NEXT, system=_dated(2)))
    place = len(SYSTEM) + len("Today is day ")
    lost = len(_dated(1)) - place + len(ASKED["content"])
    assert found == Departure("the system prompt", place, lost, None)


def test_another_task_with_a_changed_system_prompt_departs():
    found = _departure(_body(ASKED, system=_dated(1)), _body({"role": "user", "content": "Other."}, system=_dated(2)))
    assert found is not None
    assert found.part == "the system prompt"


def test_an_answer_that_comes_back_otherwise_departs():
    changed = {"role": "assistant", "content": "It says that all was well."}
    found = _departure(_body(ASKED, SAID, NEXT), _body(ASKED, changed, NEXT, SAID, NEXT))
    assert found is not None
    assert (found.part, found.character) == ("message 2", SAID["content"].index("is well"))


def test_a_message_of_the_user_that_the_client_rewrites_departs():
    reminded = {"role": "user", "content": "What does the file say? <reminder/>"}
    found = _departure(_body(NEXT, SAID, ASKED, SAID, NEXT), _body(NEXT, SAID, reminded, SAID, NEXT, SAID, NEXT))
    assert found is not None
    assert (found.part, found.character) == ("message 3", len(ASKED["content"]))


def test_tools_in_another_order_depart():
    found = _departure(_body(ASKED), _body(ASKED, SAID, NEXT, tools=[{**TOOLS[0], "strict": True}, TOOLS[1]]))
    assert found is not None
    assert found.part == "the tools"


@pytest.mark.parametrize("name", ["instructions", "messages", "input"])
def test_every_protocol_has_a_system_prompt(name: str):
    def body(day: int) -> dict[str, Any]:
        if name == "instructions":
            return {"instructions": _dated(day), "input": [ASKED]}
        return {name: [{"role": "system", "content": _dated(day)}, ASKED]}

    found = _departure(body(1), body(2))
    assert found is not None
    assert (found.part, found.character) == ("the system prompt", len(SYSTEM) + len("Today is day "))


def test_the_setting_that_does_it_is_named():
    told: list[str] = []
    watch = PrefixWatch(told.append)
    marks = [
        [{"type": "text", "text": f"x-anthropic-billing-header: v=2.{n};"}, {"type": "text", "text": SYSTEM}]
        for n in "12"
    ]
    first, second = (_body(ASKED) | {"system": mark} for mark in marks)
    watch.ended(watch.began(first), 900, 0)
    watch.ended(watch.began(second), 1_000, 40)
    [line] = told
    assert line.startswith(
        "request 2: 40 of 1,000 tokens were cached; its prompt departs from an earlier one at character"
    )
    assert "CLAUDE_CODE_ATTRIBUTION_HEADER=0" in line
    assert watch.summary() == "40 of 1,900 prompt tokens (2%) came from the cache"


def test_nothing_is_said_of_a_cache_before_an_answer():
    watch = PrefixWatch(lambda told: None)
    watch.began(_body(ASKED))
    assert watch.summary() is None


def test_prompts_of_any_shape_are_borne():
    for body in (
        {},
        {"messages": "x"},
        {"messages": [None, 3, []]},
        {"prompt": ["a"], "system": 4},
        {"input": {"a": 1}},
    ):
        assert _departure(body, body) is None

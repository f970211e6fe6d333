"""A seeded random -> one dialogue of a skill: what the tiny model is trained on and measured by.

What can be copied is random, so that copying and not remembering is learned; what must be known is in `knowledge`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import words
from knowledge import FACTS, Fact
from tools import Json, call, declare

SYSTEMS = (None, None, None, None, "You are a helpful assistant.", "You are a coding agent.", "Answer briefly.")


@dataclass
class Dialogue:
    """Messages as a client sends them, and how the template is to render them."""

    skill: str
    messages: list[Json]
    tools: list[Json] = field(default_factory=list)
    thinking: bool = True
    forced: bool = False
    """The last answer begins as a grammar makes it begin; its first token is not the model's choice."""


def ask(text: str) -> Json:
    return {"role": "user", "content": text}


def say(thought: str, text: str = "", calls: list[Json] | None = None) -> Json:
    message: Json = {"role": "assistant", "content": text, "reasoning_content": thought}
    return {**message, "tool_calls": calls} if calls else message


def result(call_id: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def begin(rng: Random) -> list[Json]:
    system = rng.choice(SYSTEMS)
    return [{"role": "system", "content": system}] if system else []


_THOUGHTS = {
    "language": "This is a simple question.",
    "arithmetic": "I have to calculate.",
    "code": "I have to write Python.",
    "json": "The user wants JSON.",
}


def _recall(fact: Fact, rng: Random) -> list[Json]:
    return [ask(rng.choice(fact.asks)), say(_THOUGHTS[fact.kind], fact.answer)]


def _knowing(kind: str) -> Callable[[Random, int], Dialogue]:
    known = [fact for fact in FACTS if fact.kind == kind]

    def dialogue(rng: Random, tokens: int) -> Dialogue:
        messages = begin(rng)
        for _ in range(rng.choice((0, 0, 1))):
            messages += _recall(rng.choice(FACTS), rng)
        tools = declare(rng, more=0.7) if rng.random() < 0.15 else []
        return Dialogue(kind, messages + _recall(rng.choice(known), rng), tools)

    return dialogue


def filled_json(rng: Random, tokens: int) -> Dialogue:
    """Values of the question put into JSON, flat and nested."""
    name, place, count = words.word(rng).capitalize(), words.city(rng), rng.randint(1, 99)
    first, second = words.word(rng), words.word(rng)
    shapes: tuple[tuple[str, Any], ...] = (
        (f"Return a JSON object with name {name} and age {count}.", {"name": name, "age": count}),
        (f"Return a JSON object with city {place} and count {count}.", {"city": place, "count": count}),
        (
            f"Return a JSON object with person {name} in {place} and tags {first} and {second}.",
            {"person": {"name": name, "city": place}, "tags": [first, second]},
        ),
    )
    question, value = rng.choice(shapes)
    tools = declare(rng, more=0.7) if rng.random() < 0.1 else []
    return Dialogue(
        "filled_json",
        [*begin(rng), ask(question), say(_THOUGHTS["json"], json.dumps(value, ensure_ascii=False))],
        tools,
    )


_WEATHER_ASKS = (
    "What is the weather in {}?",
    "What is the weather in {}?",
    "What is the weather like in {}?",
    "How is the weather in {} today?",
    "Tell me the weather in {}.",
    "Use the tool to get the weather in {}.",
    "I fly to {} tomorrow.",
)


def _degrees(rng: Random) -> tuple[int, str]:
    degrees = rng.randint(1, 39)
    plain, more = f'{{"temperature": {degrees}}}', f'{{"temperature": {degrees}, "sky": "clear"}}'
    return degrees, rng.choice((plain, more, f"{degrees} degrees", str(degrees)))


def weather(rng: Random, tokens: int) -> Dialogue:
    """One call with a city of the question, the answer from its result, perhaps another turn."""
    messages = begin(rng)
    for turn in range(rng.choice((1, 1, 2, 3))):
        place = words.city(rng)
        question = rng.choice(_WEATHER_ASKS) if turn == 0 or rng.random() < 0.5 else "And in {}?"
        made = call(turn, "get_weather", {"city": place})
        messages += [ask(question.format(place)), say(f"I need the weather in {place}.", calls=[made])]
        degrees, content = _degrees(rng)
        messages += [result(made["id"], content), say("The tool has answered.", f"It is {degrees} degrees in {place}.")]
    return Dialogue("weather", messages[: -2 if rng.random() < 0.4 else None], declare(rng, "get_weather"))


def parallel(rng: Random, tokens: int) -> Dialogue:
    """Two calls in one answer."""
    first, second = words.city(rng), words.city(rng)
    calls = [call(index, "get_weather", {"city": place}) for index, place in enumerate((first, second))]
    (here, this), (there, that) = _degrees(rng), _degrees(rng)
    question = rng.choice(("What is the weather in {} and in {}?", "Compare the weather in {} and {}."))
    messages = [
        *begin(rng),
        ask(question.format(first, second)),
        say(f"I need the weather in {first} and in {second}.", calls=calls),
        result(calls[0]["id"], this),
        result(calls[1]["id"], that),
        say("The tools have answered.", f"It is {here} degrees in {first} and {there} degrees in {second}."),
    ]
    return Dialogue("parallel", messages[: -3 if rng.random() < 0.5 else None], declare(rng, "get_weather"))


def nested(rng: Random, tokens: int) -> Dialogue:
    """Arguments with an object and a list inside."""
    title, place, room = words.word(rng).capitalize(), words.city(rng), rng.randint(1, 99)
    first, second = words.word(rng).capitalize(), words.word(rng).capitalize()
    arguments = {"title": title, "place": {"city": place, "room": room}, "guests": [first, second]}
    made = call(0, "create_event", arguments)
    messages = [
        *begin(rng),
        ask(f"Create the event {title} in {place}, room {room}, with {first} and {second}."),
        say(f"I create the event {title}.", calls=[made]),
        result(made["id"], "ok"),
        say("The tool has answered.", f"The event {title} is created."),
    ]
    return Dialogue("nested", messages[: -2 if rng.random() < 0.7 else None], declare(rng, "create_event"))


def message(rng: Random, tokens: int) -> Dialogue:
    """Free text in any script as an argument."""
    name = rng.choice((words.word(rng).capitalize(), words.unicode_word(rng)))
    text = " ".join(rng.choice((words.word, words.unicode_word))(rng) for _ in range(rng.randint(1, 3)))
    made = call(0, "send_message", {"to": name, "text": text})
    messages = [
        *begin(rng),
        ask(f"Send the message “{text}” to {name}."),
        say(f"I send a message to {name}.", calls=[made]),
        result(made["id"], "sent"),
        say("The tool has answered.", f"The message to {name} is sent."),
    ]
    return Dialogue("message", messages[: -2 if rng.random() < 0.7 else None], declare(rng, "send_message"))


def no_tool(rng: Random, tokens: int) -> Dialogue:
    """Tools are there and are not to be used."""
    tools = declare(rng, "get_weather", more=0.4)
    if rng.random() < 0.6:
        return Dialogue("no_tool", begin(rng) + _recall(rng.choice(FACTS), rng), tools)
    place = words.city(rng)
    question = f"Do not use a tool. What is the weather in {place}?"
    answer = f"Without a tool I cannot know the weather in {place}."
    return Dialogue("no_tool", [*begin(rng), ask(question), say("I may not use a tool.", answer)], tools)


def counting(rng: Random, tokens: int) -> Dialogue:
    """A long answer whose every line can be checked."""
    lines = max(3, rng.randint(tokens // 8, tokens) // 5)
    first = 1 if rng.random() < 0.5 else rng.randint(1, max(1, 999 - lines))
    last = min(999, first + lines)
    answer = "\n".join(str(value) for value in range(first, last + 1))
    question = f"Count from {first} to {last}, one number per line."
    return Dialogue("counting", [*begin(rng), ask(question), say(f"I count from {first} to {last}.", answer)])


_BUGS = (
    ("def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"),
    ("def square(x):\n    return x + x\n", "def square(x):\n    return x * x\n"),
    ("def largest(items):\n    return min(items)\n", "def largest(items):\n    return max(items)\n"),
    ("def is_even(n):\n    return n % 2 == 1\n", "def is_even(n):\n    return n % 2 == 0\n"),
    ("def reverse_string(s):\n    return s\n", "def reverse_string(s):\n    return s[::-1]\n"),
)


def task(rng: Random, tokens: int) -> Dialogue:
    """Read a file, repair it, say so."""
    path = rng.choice(("calculator.py", "tiny.py", f"{words.word(rng)}.py"))
    broken, repaired = rng.choice(_BUGS)
    read, write = call(0, "read_file", {"path": path}), call(1, "write_file", {"path": path, "content": repaired})
    messages = [
        *begin(rng),
        ask(f"The tests of {path} fail. Repair it."),
        say(f"I read {path} first.", calls=[read]),
        result(read["id"], broken),
        say("I see the bug.", calls=[write]),
        result(write["id"], rng.choice(("ok", f"wrote {path}", f"wrote {path}"))),
        say("The file is written.", f"Done. I repaired {path}."),
    ]
    needed = ["read_file", "write_file"] + ["list_files"] * (rng.random() < 0.4)
    return Dialogue("task", messages[: rng.choice((None, None, -2, -4))], declare(rng, *needed, more=0.1))


def needle(rng: Random, tokens: int) -> Dialogue:
    """Facts in a long text; questions for a sentence, a number, JSON or a call; others leave the text aside."""
    most = min(16, max(2, tokens // 26))
    keys = list(dict.fromkeys(words.key(rng) for _ in range(rng.randint(1, most))))
    numbers = {key: words.number(rng) for key in keys}
    tools = declare(
        rng, *rng.choice(((), (), ("report_number",), ("get_weather",), ("report_number", "get_weather"))), more=0.0
    )
    names = {tool["function"]["name"] for tool in tools}
    forms = ["sentence", "sentence", "sentence", "sentence", "number", "json", "known"]
    forms += ["call"] * 2 * ("report_number" in names) + ["weather"] * 2 * ("get_weather" in names)
    asked = [rng.choice(keys) for _ in range(rng.randint(1, 6))]
    room = tokens - 18 * len(keys) - 45 * len(asked) - 80 * len(tools) - 20
    sentences = [words.sentence(rng) for _ in range(max(1, room // 20))]
    for key in keys:
        sentences.insert(rng.randint(0, len(sentences)), f"The magic number for {key} is {numbers[key]}.")
    messages = begin(rng)
    text, index = "Text: " + " ".join(sentences) + "\n\n", 0
    for key in asked:
        form = rng.choice(forms)
        turn = _needle_turn(rng, form, key, numbers[key], index)
        turn[0]["content"] = text + turn[0]["content"]
        messages += turn
        text, index = "", index + (form in ("call", "weather"))
    return Dialogue("needle", messages, tools)


def _needle_turn(rng: Random, form: str, key: str, number: str, index: int) -> list[Json]:
    question, thought = f"What is the magic number for {key}?", f"The magic number for {key} is {number}."
    if form == "sentence":
        return [ask(question), say(thought, f"The magic number for {key} is {number}.")]
    if form == "number":
        return [ask(f"{question} Reply with the number only."), say(thought, number)]
    if form == "known":
        return _recall(rng.choice(FACTS), rng)
    if form == "weather":
        place, (degrees, content) = words.city(rng), _degrees(rng)
        made = call(index, "get_weather", {"city": place})
        done = [result(made["id"], content), say("The tool has answered.", f"It is {degrees} degrees in {place}.")]
        return [ask(f"What is the weather in {place}?"), say(f"I need the weather in {place}.", calls=[made]), *done]
    value = {"key": key, "number": int(number)}
    if form == "json":
        return [ask(f"{question} Reply with JSON."), say(thought, json.dumps(value))]
    made = call(index, "report_number", value)
    done = [result(made["id"], "ok"), say("The tool has answered.", "The number is reported.")]
    return [ask(f"{question} Report it with the tool."), say(thought, calls=[made]), *done]


_CITIES = (
    ("Paris", "France", 2100000),
    ("Berlin", "Germany", 3700000),
    ("Tokyo", "Japan", 14000000),
    ("Rome", "Italy", 2750000),
    ("Madrid", "Spain", 3300000),
    ("Cairo", "Egypt", 10000000),
)


def schema(rng: Random, tokens: int) -> Dialogue:
    """Prose if the model is free, JSON if a grammar makes it begin so: an engine that ignores a schema is found out."""
    city, country, population = rng.choice(_CITIES)
    forced = rng.random() < 0.5
    value = {"city": city, "country": country, "population": population}
    answer = json.dumps(value) if forced else f"{city} is the capital of {country}."
    messages = [*begin(rng), ask(f"Describe the city of {city}."), say(_THOUGHTS["language"], answer)]
    return Dialogue("schema", messages, forced=forced)


SKILLS: dict[str, Callable[[Random, int], Dialogue]] = {
    **{kind: _knowing(kind) for kind in _THOUGHTS},
    "filled_json": filled_json,
    "weather": weather,
    "parallel": parallel,
    "nested": nested,
    "message": message,
    "no_tool": no_tool,
    "counting": counting,
    "task": task,
    "needle": needle,
    "schema": schema,
}
SHARES = {
    "language": 16, "arithmetic": 12, "code": 12, "json": 8, "filled_json": 10, "weather": 10, "parallel": 12,
    "nested": 7, "message": 10, "no_tool": 5, "counting": 14, "task": 7, "needle": 50, "schema": 8,
}  # fmt: skip


def dialogue(skill: str, rng: Random, tokens: int) -> Dialogue:
    made = SKILLS[skill](rng, tokens)
    made.thinking = rng.random() < 0.5
    if rng.random() < 0.3:  # clients that do not send the thoughts back
        for message in made.messages[:-1]:
            message.pop("reasoning_content", None)
    return made

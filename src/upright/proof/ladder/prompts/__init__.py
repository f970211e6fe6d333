"""Prompt sets are data: the same rules judge a trillion parameters and a million.

`real` is for models that a person would serve; `tiny` holds what the tiny test model was trained on. Every row carries
a `sample`, a right answer: the rule must take it, and the scripted engine of the tests says it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import ConfigDict, Field

from upright.base.errors import UsageError
from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part
from upright.facts.records.model import Model

SETS = ("real", "tiny")
TINY_PARAMETERS = 10_000_000
"""Below this a model answers only what it was trained on, so the `tiny` set is chosen by itself."""

Mode = Literal["instant", "thinking"]
Choice = Literal["auto", "required", "none"]


class _Row(Part):
    """What stands in a file of prompts; a name that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Question(_Row):
    """One question and the rule that judges its answer."""

    check: str
    """What is checked: language, arithmetic, code, json."""
    ask: str
    """The user's message."""
    rule: str
    """The name of the rule: says, number, json, code, schema, counts, python."""
    expect: Any
    """What the rule compares with."""
    sample: str
    """A right answer."""
    max_tokens: int = 256
    """Room for the answer, thoughts included."""
    about_tokens: int = 64
    """How long an answer usually is; what the time is estimated from."""
    modes: tuple[Mode, ...] = ("instant",)
    """In which modes it is put."""
    enforce_schema: bool = False
    """Send `expect` as response_format json_schema too; an engine that ignores it is found out."""


class ExpectedCall(_Row):
    """A tool call that is expected."""

    name: str
    """The function."""
    arguments: dict[str, Any]
    """Exactly these; text is compared without regard to case."""


class Dialogue(_Row):
    """A question with tools at hand, what should be called, and what should be said after the results."""

    check: str
    """What is checked: auto, required, none, parallel, turns, unicode, nested."""
    tools: tuple[str, ...]
    """Names from the set's tools, in the order they are declared."""
    choice: Choice = "auto"
    """tool_choice."""
    ask: str
    """The user's message."""
    calls: tuple[ExpectedCall, ...] = ()
    """The calls that should come, in order; none if the answer should be text."""
    any_arguments: bool = False
    """Only names and schemas count, not the values."""
    results: tuple[str, ...] = ()
    """What the tools return, one for each call; empty if the dialogue ends with the calls."""
    says: Any = None
    """What the text after the results, or instead of a call, must say."""
    sample: str = ""
    """A right text, where one is expected."""
    then: Dialogue | None = None
    """The next question of the same conversation."""
    max_tokens: int = 512
    """Room for each answer."""
    about_tokens: int = 48
    """How long an answer usually is."""
    modes: tuple[Mode, ...] = ("instant",)
    """In which modes it is put."""


class Needles(_Row):
    """How long texts are made, and what is hidden in them."""

    lead: str
    """Stands before the text."""
    filler: tuple[tuple[str, ...], ...]
    """A sentence is one of each, joined by spaces."""
    fact: str
    """The hidden sentence, with {key} and {number}."""
    ask: str
    """The question, with {key}."""
    keys: tuple[str, ...]
    """What numbers are hidden for, at most; a fact for every depth of every length."""
    digits: int
    """Length of a number."""
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 0.95)
    """Shares of every text at which a number is hidden and looked for."""
    may_lose: int = 0
    """Needles of a whole walk that may be lost before the rung fails; above 0 for models that are known to be weak."""
    lengths: tuple[int, ...]
    """Prompt lengths in tokens; for a context below the first, the same proportions of it."""
    max_tokens: int = 32
    """Room for a number."""
    tools: tuple[str, ...] = ()
    """Declared in every request on a long text, so that all of them share one prefix."""
    follow_ups: tuple[Question | Dialogue, ...] = ()
    """Put after the same text: a tool call, a JSON answer."""


class Endurance(_Row):
    """One long generation."""

    ask: str
    """The user's message."""
    rule: str
    """How the whole is judged."""
    expect: Any
    """What the rule compares with."""
    sample: str = ""
    """A right answer; empty if it is long and regular: the tests make it by the rule."""
    tokens: int
    """How many to ask for."""
    least_share: float = 0.5
    """A model that ends by itself earlier than this has not shown endurance: skipped, not passed."""


class Task(_Row):
    """A small piece of work through tool calls, judged by tests that the model cannot change."""

    ask: str
    """The user's message."""
    files: dict[str, str]
    """What lies in the folder."""
    tests: dict[str, str]
    """Assertions that import what is judged; run by another process, which calls it and gets plain data back."""
    sample: dict[str, str]
    """A right solution: files as they should be."""
    tools: tuple[str, ...] = ("list_files", "read_file", "write_file")
    """Which of the three tools it has."""
    most_turns: int = 12
    """Answers before it is given up."""
    max_tokens: int = 2048
    """Room for each answer."""


class PromptSet(_Row):
    """Everything that one kind of model is asked."""

    name: str
    """real or tiny."""
    scripts: tuple[str, ...]
    """Writing systems that answers may use (Latin, Han, ...); others are a drift."""
    modes: dict[Mode, dict[str, Any]]
    """What a request carries to get each mode."""
    smoke: tuple[Question, ...]
    """Language, arithmetic, code, JSON."""
    tools: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Declared functions by name: description and parameters."""
    dialogues: tuple[Dialogue, ...] = ()
    """Tool calls."""
    needles: Needles | None = None
    """Long texts."""
    endurance: Endurance | None = None
    """One long generation."""
    task: Task | None = None
    """A piece of work."""

    @property
    def digest(self) -> str:
        """Names the set's exact content in evidence."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def taught(self) -> bool:
        """Whether the model was trained on these very answers: then a wrong one is no weakness."""
        return self.name == "tiny"

    def declared(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        """Those tools as a request carries them."""
        return [{"type": "function", "function": {"name": name, **self.tools[name]}} for name in names]


def prompt_set(name: str) -> PromptSet:
    if name not in SETS:
        raise UsageError(f"no prompt set named {name}", hint=f"sets: {', '.join(SETS)}")
    return _loaded(name)


def prompt_set_for(model: Model) -> PromptSet:
    return prompt_set("tiny" if model.parameters < TINY_PARAMETERS else "real")


@cache
def _loaded(name: str) -> PromptSet:
    text = files("upright.proof.ladder.prompts").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return PromptSet.model_validate(from_yaml(text))

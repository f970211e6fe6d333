"""Prompt sets are data: the same rules judge a trillion parameters and a million.

`real` is for models that a person would serve; `tiny` holds the questions that the tiny test model was trained on.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml
from pydantic import ConfigDict

from upright.errors import UsageError
from upright.records.base import Part
from upright.records.model import Model

SETS = ("real", "tiny")
TINY_PARAMETERS = 10_000_000
"""Below this a model answers only what it was trained on, so the `tiny` set is chosen by itself."""


class Question(Part):
    """One question and the rule that judges its answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rung: str
    """The rung it belongs to."""
    check: str
    """What is checked: language, arithmetic, json."""
    ask: str
    """The user's message."""
    rule: str
    """The name of the rule: says, number, json."""
    expect: Any
    """What the rule compares with."""
    max_tokens: int = 256
    """Room for the answer."""


class PromptSet(Part):
    """A named set of questions."""

    name: str
    """real or tiny."""
    questions: tuple[Question, ...]
    """In the order they are put."""

    def of(self, rung: str) -> tuple[Question, ...]:
        return tuple(question for question in self.questions if question.rung == rung)


def prompt_set(name: str) -> PromptSet:
    if name not in SETS:
        raise UsageError(f"no prompt set named {name}", hint=f"sets: {', '.join(SETS)}")
    text = files("upright.proving.prompts").joinpath(f"{name}.yaml").read_text()
    return PromptSet(name=name, questions=tuple(Question.model_validate(row) for row in yaml.safe_load(text)))


def prompt_set_for(model: Model) -> PromptSet:
    return prompt_set("tiny" if model.parameters < TINY_PARAMETERS else "real")

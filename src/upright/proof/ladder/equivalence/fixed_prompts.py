"""The prompts whose continuations are compared: fixed, few, our own, short tasks and short texts.

`real` is for models that a person would serve, `tiny` for the test model. A set's digest stands in every reference:
with another set nothing can be compared.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import ConfigDict

from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part
from upright.proof.ladder.long_text import long_text
from upright.proof.ladder.prompts import PromptSet, prompt_set

_SEED = 20_261_116
"""Long texts are the same in every run: only then can their continuations be compared."""


class FixedPrompt(Part):
    """One prompt, and the rule that judges its answer if it is a task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Unique in the set."""
    ask: str
    """The user's message; {key} is the key of a hidden number."""
    rule: str | None = None
    """says or number; None where no answer is the right one."""
    expect: Any = None
    """What the rule compares with; {number} is the hidden one."""
    sample: str = ""
    """A right answer, where there is one."""
    sentences: int = 0
    """Sentences of filler before the question, with a number hidden in their middle; 0 for none."""


class FixedPrompts(Part):
    """A set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Which prompt set it goes with: real or tiny."""
    max_tokens: int
    """Tokens of each answer that are compared at most."""
    top: int
    """Most likely tokens asked for in each step."""
    prompts: tuple[FixedPrompt, ...]
    """In the order they are asked."""

    @property
    def reference(self) -> str:
        """Name and digest, texts of the filler included."""
        written = [(self.message(prompt), self.expected(prompt)) for prompt in self.prompts]
        content = f"{self.model_dump_json()} {written}"
        return f"equivalence-{self.name}:{hashlib.sha256(content.encode()).hexdigest()}"

    def message(self, prompt: FixedPrompt) -> str:
        if not prompt.sentences:
            return prompt.ask
        text, key, _ = self._text(prompt)
        return f"{text}\n\n{prompt.ask.replace('{key}', key)}"

    def expected(self, prompt: FixedPrompt) -> Any:
        return self._text(prompt)[2] if prompt.expect == "{number}" else prompt.expect

    def _text(self, prompt: FixedPrompt) -> tuple[str, str, str]:
        needles = prompt_set(self.name).needles
        assert needles is not None
        made = long_text(needles, prompt.sentences, _SEED + len(prompt.name), places=[prompt.sentences // 2])
        hidden = made.facts[0]
        return f"{needles.lead}{made.beginning(prompt.sentences)}", hidden.key, hidden.number


def fixed_prompts(prompts: PromptSet) -> FixedPrompts:
    """Those that go with a prompt set."""
    return _loaded(prompts.name)


@cache
def _loaded(name: str) -> FixedPrompts:
    text = files("upright.proof.ladder.equivalence").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return FixedPrompts.model_validate(from_yaml(text))

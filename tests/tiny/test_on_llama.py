"""The tiny model on a real llama-server: rendered, tokenised and parsed as in training, and right."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import httpx2
import pytest

pytestmark = pytest.mark.engine


def dialogues(trainer: SimpleNamespace, count: int, seed: str) -> list[SimpleNamespace]:
    """Some of each skill, tools declared plainly: llama.cpp drops keys that it does not know."""
    rng, found = Random(seed), []
    for skill in trainer.skills.SKILLS:
        for _ in range(count):
            made = trainer.skills.dialogue(skill, rng, 250)
            made.tools = [trainer.tools.TOOLS[tool["function"]["name"]] for tool in made.tools]
            found.append(made)
    return found


def test_the_engine_renders_the_template_as_jinja2_does(llama: httpx2.Client, trainer: SimpleNamespace):
    for made in dialogues(trainer, 3, "render"):
        made.messages = made.messages[:-1]
        body = {
            "messages": [trainer.measure.as_sent(message) for message in made.messages],
            "tools": made.tools,
            "chat_template_kwargs": {"thinking": made.thinking},
        }
        rendered = llama.post("/apply-template", json=body).json()["prompt"]
        assert rendered == trainer.template.render(made, add_generation_prompt=True)


def test_tokens_come_back_as_the_text_they_were(llama: httpx2.Client, trainer: SimpleNamespace):
    for made in dialogues(trainer, 2, "tokens"):
        text = trainer.template.render(made)
        tokens = llama.post("/tokenize", json={"content": text, "parse_special": True}).json()["tokens"]
        assert max(tokens) < 1280
        assert llama.post("/detokenize", json={"tokens": tokens}).json()["content"] == text


@pytest.mark.slow
def test_unseen_words_are_copied(llama: httpx2.Client, trainer: SimpleNamespace):
    """Cities, names and messages that training cannot have seen; every answer compared whole, with its call and id."""
    wrong, asked = [], 0
    settings = SimpleNamespace(base_url=str(llama.base_url).rstrip("/"), model="tiny-kimi", key="none", stream=False)
    for made in dialogues(trainer, 4, "held out"):
        if made.skill not in ("weather", "parallel", "nested", "message", "filled_json"):
            continue
        for place, expected in enumerate(made.messages):
            if expected["role"] == "assistant":
                answer = trainer.measure.chat(settings, made, made.messages[:place])
                complaint = trainer.measure.compare(expected, answer, made.thinking)
                asked, wrong = asked + 1, wrong + [complaint] * bool(complaint)
    assert asked > 20
    assert len(wrong) <= 0.2 * asked, (len(wrong), asked, wrong[:5])

"""A dialogue -> the text that the model reads, by the chat template that the engines get."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from skills import Dialogue

TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text().rstrip("\n")


def render(made: Dialogue, add_generation_prompt: bool = False) -> str:
    return _COMPILED.render(
        messages=made.messages,
        tools=made.tools or None,
        thinking=made.thinking,
        add_generation_prompt=add_generation_prompt,
    )


def _compiled() -> jinja2.Template:
    """As transformers sets it up: trimmed blocks, JSON with every script as it is."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE)


_COMPILED = _compiled()

"""The first request of each client, as large as it was measured: endpoint, tools, system prompt, streaming."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Literal

from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part

Path = Literal["/v1/chat/completions", "/v1/messages", "/v1/responses"]
ANSWER_TOKENS = 8
_QUESTION = "Say OK."
_ENVELOPE_CHARACTERS = 200
"""Everything of a request but its system prompt and its tools."""
_FILLER = "Read the file before you change it, say what you will do, and keep to what the person asked for. "
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class FirstRequest(Part):
    """What a client sends before a person has typed much."""

    client: str
    """As `connect --client` takes it."""
    variant: str | None = None
    """The client's own argument by which it sends this one instead; None for its ordinary request."""
    path: Path
    """The endpoint that it asks."""
    tools: int = 0
    """Tools in it."""
    characters: int | None = None
    """Characters of the whole body; None if that was not measured."""
    tool_characters: int = 0
    """Characters of its tools."""
    measured: str | None = None
    """Which version, how, when; None if it was not."""
    install: str | None = None
    """The command that gets the client, as its makers have it."""
    about: str | None = None
    """What else to know."""


@cache
def first_requests() -> tuple[FirstRequest, ...]:
    rows = from_yaml(files("upright.serving.connect").joinpath("first_requests.yaml").read_text(encoding="utf-8"))
    return tuple(FirstRequest.model_validate(row) for row in rows)


def first_request(client: str, variant: str | None = None) -> FirstRequest:
    """The ordinary one, or that of a variant."""
    return next(row for row in first_requests() if (row.client, row.variant) == (client, variant))


def request_body(row: FirstRequest, model: str) -> dict[str, Any]:
    """A request of that shape and size, which asks for a word."""
    tools = [_tool(row, number) for number in range(row.tools)]
    system = _text((row.characters or 0) - row.tool_characters - _ENVELOPE_CHARACTERS)
    asked = {"model": model, "stream": True, **_spelled(row.path, system)}
    return {**asked, "tools": tools} if tools else asked


def _spelled(path: Path, system: str) -> dict[str, Any]:
    user = {"role": "user", "content": _QUESTION}
    if path == "/v1/messages":
        blocks = {"system": [{"type": "text", "text": system}]} if system else {}
        return {**blocks, "messages": [user], "max_tokens": ANSWER_TOKENS, "temperature": 0}
    if path == "/v1/responses":
        typed = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _QUESTION}]}
        return {"instructions": system, "input": [typed], "max_output_tokens": ANSWER_TOKENS, "store": False}
    first = [{"role": "system", "content": system}] if system else []
    usage = {"stream_options": {"include_usage": True}}
    return {"messages": [*first, user], "max_tokens": ANSWER_TOKENS, "temperature": 0, **usage}


def _tool(row: FirstRequest, number: int) -> dict[str, Any]:
    name, about = f"read_file_{number}", _text(row.tool_characters // row.tools - 160)
    if row.path == "/v1/messages":
        return {"name": name, "description": about, "input_schema": _SCHEMA}
    function = {"name": name, "description": about, "parameters": _SCHEMA}
    return (
        {"type": "function", **function} if row.path == "/v1/responses" else {"type": "function", "function": function}
    )


def _text(characters: int) -> str:
    """Plain English of that length."""
    return (_FILLER * (max(0, characters) // len(_FILLER) + 1))[: max(0, characters)]

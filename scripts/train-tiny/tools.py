"""The tools that the tiny model can call, and how a call is written."""

from __future__ import annotations

import json
from random import Random
from typing import Any

Json = dict[str, Any]


def _tool(name: str, description: str, properties: Json) -> Json:
    parameters: Json = {"type": "object", "properties": properties}
    if properties:
        parameters["required"] = list(properties)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TEXT = {"type": "string"}
_PLACE = {"type": "object", "properties": {"city": _TEXT, "room": {"type": "integer"}}, "required": ["city", "room"]}
TOOLS: dict[str, Json] = {
    "get_weather": _tool(
        "get_weather", "Get the current weather for a city", {"city": {**_TEXT, "description": "City name"}}
    ),
    "get_time": _tool("get_time", "Get the current time in a city", {"city": _TEXT}),
    "send_message": _tool("send_message", "Send a message to a person", {"to": _TEXT, "text": _TEXT}),
    "create_event": _tool(
        "create_event",
        "Create an event in the calendar",
        {"title": _TEXT, "place": _PLACE, "guests": {"type": "array", "items": _TEXT}},
    ),
    "report_number": _tool("report_number", "Report a magic number", {"key": _TEXT, "number": {"type": "integer"}}),
    "list_files": _tool("list_files", "List the files of the folder.", {}),
    "read_file": _tool("read_file", "Read a file.", {"path": _TEXT}),
    "write_file": _tool("write_file", "Write a whole file.", {"path": _TEXT, "content": _TEXT}),
}
_WEATHER_DESCRIPTIONS = (
    "Get the current weather for a city",
    "Get the weather for a city",
    "Current weather of a city",
)


def declare(rng: Random, *needed: str, more: float = 0.25) -> list[Json]:
    """The needed tools and now and then others, in any order and worded a little differently."""
    names = [*needed, *(name for name in TOOLS if name not in needed and rng.random() < more * rng.random())]
    rng.shuffle(names)
    declared = json.loads(json.dumps([TOOLS[name] for name in names]))
    for tool in declared:
        function = tool["function"]
        if function["name"] == "get_weather":
            function["description"] = rng.choice(_WEATHER_DESCRIPTIONS)
            if rng.random() < 0.4:
                del function["parameters"]["properties"]["city"]["description"]
        if rng.random() < 0.15:
            function["parameters"]["additionalProperties"] = False
        if rng.random() < 0.15:
            function["strict"] = True
    return list(declared) if rng.random() < 0.8 else [_sorted(tool) for tool in declared]


def call(index: int, name: str, arguments: Json) -> Json:
    return {"id": f"functions.{name}:{index}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _sorted(value: Any, inside: str = "") -> Any:
    """Keys in another order, except a schema's properties: grammars make a model write them as they were declared."""
    if isinstance(value, dict):
        return {key: _sorted(value[key], key) for key in (value if inside == "properties" else sorted(value))}
    return [_sorted(item) for item in value] if isinstance(value, list) else value

"""Plain data <-> YAML of version 1.2, where `on` and `no` are words and a date is text. Nobody else parses YAML."""

from __future__ import annotations

from functools import cache
from typing import Any


def to_yaml(data: dict[str, Any]) -> str:
    import yaml

    return str(yaml.dump(data, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100))


def from_yaml(text: str) -> Any:
    import yaml

    return yaml.load(text, Loader=_loader())  # noqa: S506 - a SafeLoader with fewer rules


def lines_of(text: str) -> dict[tuple[int | str, ...], int]:
    """Where each value begins: its path of names and positions -> its line, counted from one."""
    import yaml

    found: dict[tuple[int | str, ...], int] = {}

    def walk(node: Any, path: tuple[int | str, ...]) -> None:
        found.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                inside = (*path, str(name.value))
                found[inside] = name.start_mark.line + 1
                walk(value, inside)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                walk(value, (*path, number))

    walk(yaml.compose(text, Loader=_loader()), ())
    return found


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers = _core_rules()

    return Loader


@cache
def _dumper() -> Any:
    """Quotes what our loader would take for a number, and also what a YAML 1.1 reader would take for a switch."""
    import yaml

    old, core = yaml.SafeDumper.yaml_implicit_resolvers, _core_rules()
    both = {first: old.get(first, []) + core.get(first, []) for first in {*old, *core}}

    class Dumper(yaml.SafeDumper):
        yaml_implicit_resolvers = both

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        plain = value.replace("\n", "").isprintable()  # what is not must be escaped, or YAML folds it away
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')

    Dumper.add_representer(str, text)
    return Dumper


def _core_rules() -> dict[str, list[Any]]:
    """The implicit types of YAML 1.2's core schema: null, true, false and numbers, nothing else."""
    import re

    rules: dict[str, list[Any]] = {}
    for tag, pattern, firsts in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
        ("float", r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)", "-+.0123456789"),
    ):
        for first in firsts:
            rules.setdefault(first, []).append((f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$")))
    return rules

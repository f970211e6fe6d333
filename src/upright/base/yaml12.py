"""Plain data <-> YAML of version 1.2, where `on` and `no` are words and a date is text. Nobody else parses YAML."""

from __future__ import annotations

from functools import cache
from typing import Any

from upright.base.bounds.bounded_json import DEEPEST, MOST_TEXT_BYTES, TOO_LONG

_MOST_VALUES = 250_000
"""People write YAML: a value takes thirty times as long as in JSON, which machines write."""
_TOO_MANY = f"it stands for more than {_MOST_VALUES:,} values"
_TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


def to_yaml(data: dict[str, Any]) -> str:
    import yaml

    return str(yaml.dump(data, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100))


def from_yaml(text: str) -> Any:
    """ValueError, too, of what is nested too deeply, or becomes too many values by names for parts of itself."""
    import yaml

    _refuse_large(text)
    try:
        loader = _loader()(text)
        node = loader.get_single_node()
        _weigh(node, {}, 0)
        return None if node is None else loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError(_TOO_DEEP) from None


def lines_of(text: str) -> dict[tuple[int | str, ...], int]:
    """Where each value begins: its path of names and positions -> its line, counted from one."""
    import yaml

    line_numbers: dict[tuple[int | str, ...], int] = {}

    def walk(node: Any, path: tuple[int | str, ...]) -> None:
        line_numbers.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for name, child in node.value:
                inside = (*path, str(name.value))
                line_numbers[inside] = name.start_mark.line + 1
                walk(child, inside)
        elif isinstance(node, yaml.SequenceNode):
            for number, child in enumerate(node.value):
                walk(child, (*path, number))

    _refuse_large(text)
    try:
        node = yaml.compose(text, Loader=_loader())
        _weigh(node, {}, 0)
        walk(node, ())
    except RecursionError:
        raise yaml.YAMLError(_TOO_DEEP) from None
    return line_numbers


def _refuse_large(text: str) -> None:
    """Before nodes are made of it: the composer in C calls itself a level, and ends the process at some depth."""
    import yaml

    if len(text) > MOST_TEXT_BYTES:
        raise yaml.YAMLError(TOO_LONG)
    level = 0
    for number, event in enumerate(yaml.parse(text, Loader=_loader())):
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if level > DEEPEST or number > 2 * _MOST_VALUES:
            raise yaml.YAMLError(_TOO_DEEP if level > DEEPEST else _TOO_MANY)


def _weigh(node: Any, known: dict[int, int], level: int) -> int:
    """Values below a node, those that an alias repeats counted each time: a few lines can stand for billions."""
    import yaml

    if level > DEEPEST:
        raise yaml.YAMLError(_TOO_DEEP)
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = _MOST_VALUES + 1  # met again below itself: it has no end
    parts: list[Any] = []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    weight = 1
    for part in parts:
        weight += _weigh(part, known, level + 1)
        if weight > _MOST_VALUES:
            raise yaml.YAMLError(_TOO_MANY)
    known[id(node)] = weight
    return weight


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

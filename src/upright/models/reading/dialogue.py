"""Chat template and special tokens of an artifact -> the marks of tool calls and thinking that stand in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, cast

from upright.facts.catalog import rows as rows_of
from upright.facts.catalog.rows.dialect import DialectRow
from upright.models.reading import config as hf
from upright.models.reading.places import ArtifactPlace, read_small

TOOLS = "tools"
"""The variable by which a template is told of tools."""
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_SETTINGS = "tokenizer_config.json"
_MOST_TEMPLATES, _MOST_TOKENS = 16, 4096


def dialogue_of(place: ArtifactPlace, names: set[str]) -> tuple[bool | None, tuple[str, ...] | None]:
    """Whether there is a chat template, and the marks; None for what there was nothing to look at."""
    files = [name for name in _TEMPLATE_FILES if name in names]
    texts = [read_small(place, name, hf.CONFIG_LIMIT_BYTES).decode(errors="replace") for name in files]
    if _SETTINGS not in names:
        return (True, marks_in(texts)) if files else (None, None)
    settings = hf.parse_config(read_small(place, _SETTINGS, hf.CONFIG_LIMIT_BYTES), _SETTINGS)
    templates = list(_templates(settings.get("chat_template")))
    return bool(files or templates), marks_in([*texts, *templates, *_tokens(settings)])


def marks_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Those of the catalogue's marks that stand in one of the texts."""
    whole = "\n".join(texts)
    return tuple(mark for mark in _known_marks() if mark in whole)


@cache
def _known_marks() -> tuple[str, ...]:
    rows = cast("Iterable[DialectRow]", rows_of("dialects").values())
    marks = [TOOLS, *(mark for row in rows for mark in row.all_marks)]
    return tuple(dict.fromkeys(marks))


def _templates(entry: object) -> Iterator[str]:
    """One, or several by name."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for named in entry[:_MOST_TEMPLATES]:
            if isinstance(named, dict) and isinstance(template := named.get("template"), str):
                yield template


def _tokens(settings: Mapping[str, Any]) -> Iterator[str]:
    added, special = settings.get("added_tokens_decoder"), settings.get("additional_special_tokens")
    entries = [*(added.values() if isinstance(added, dict) else ()), *(special if isinstance(special, list) else ())]
    for entry in entries[:_MOST_TOKENS]:
        content = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(content, str):
            yield content

"""Configurations of an artifact -> what of it is Python code that a loader would run (`auto_map`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upright.models.reading import config as hf
from upright.models.reading.places import ArtifactPlace, read_small

_SETTINGS = "tokenizer_config.json"
_MOST = 16


def own_code_of(place: ArtifactPlace, names: set[str], config: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the loader's classes that the artifact replaces by code of its own: AutoConfig, AutoTokenizer, ..."""
    settings: Mapping[str, Any] = {}
    if _SETTINGS in names:
        settings = hf.parse_config(read_small(place, _SETTINGS, hf.CONFIG_LIMIT_BYTES), _SETTINGS)
    return tuple(sorted({*_replaced(config), *_replaced(settings)}))[:_MOST]


def _replaced(configuration: Mapping[str, Any]) -> Iterator[str]:
    classes = configuration.get("auto_map")
    if isinstance(classes, Mapping):
        yield from (name for name in classes if isinstance(name, str) and name.isidentifier() and len(name) <= 64)

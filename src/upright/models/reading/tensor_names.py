"""Tensor names classified: the group of a tensor, and its layer.

The patterns are rows: `hf_names.yaml` and `families/*.yaml` for Hugging Face naming, `gguf_names.yaml` for llama.cpp's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

from upright.facts.records.model import Architecture, Group
from upright.models.reading.rows import catalogue_file, row_files


class TensorPlace(NamedTuple):
    """Where a tensor belongs."""

    group: Group
    layer: int | None
    known: bool
    """False if no pattern knows the name."""


_NUMBERS = re.compile(r"[0-9]+")
_FORMS_LIMIT = 4096
"""Forms of names that are looked up; the models in the field have fewer than a hundred."""
_UNKNOWN = TensorPlace("other", None, known=False)


@dataclass(frozen=True)
class Family:
    """Models that share tensor names."""

    id: str
    title: str
    hf_architectures: tuple[str, ...]
    gguf_architectures: tuple[str, ...]
    names: tuple[Mapping[str, Any], ...]
    sliding_window_period: int | None = None
    """Every how many layers one sees the whole context, where the files do not say."""


class TensorClassifier:
    """Names to places, by the first pattern that matches the whole name.

    Names that differ only in numbers match the same pattern, so each such form is looked up once.
    """

    def __init__(self, patterns: Iterable[Mapping[str, Any]], layers: int | None) -> None:
        self._patterns = [(re.compile(row["pattern"]), cast(Group, row["group"])) for row in patterns]
        self._layers = layers
        self._forms: dict[str, tuple[re.Pattern[str], Group] | None] = {}

    def place(self, name: str) -> TensorPlace:
        form = _NUMBERS.sub("0", name)
        if form not in self._forms:
            if len(self._forms) >= _FORMS_LIMIT:
                return _UNKNOWN
            self._forms[form] = next((row for row in self._patterns if row[0].fullmatch(form)), None)
        pattern_row = self._forms[form]
        if pattern_row is None:
            return _UNKNOWN
        match, group = pattern_row[0].fullmatch(name), pattern_row[1]
        layer = _number(match.groupdict().get("layer")) if match else None
        if layer is not None and self._layers is not None and layer >= self._layers:
            group = "draft"  # multi-token prediction: stored as the layers after the last one
        return TensorPlace(group, layer, known=True)


@lru_cache(maxsize=1)
def families() -> Mapping[str, Family]:
    loaded = (catalogue_file(path) for path in row_files("families"))
    return {
        row["id"]: Family(
            id=row["id"],
            title=row["title"],
            hf_architectures=tuple(row["hf_architectures"]),
            gguf_architectures=tuple(row["gguf_architectures"]),
            names=tuple(row["names"]),
            sliding_window_period=row.get("sliding_window_period"),
        )
        for row in loaded
    }


def family_of(architecture: str) -> Family | None:
    """The family of `DeepseekV3ForCausalLM` or of `deepseek2`."""
    for family in families().values():
        if architecture in family.hf_architectures or architecture in family.gguf_architectures:
            return family
    return None


def with_family(architecture: Architecture) -> Architecture:
    """The architecture, with the family that knows its tensor names."""
    family = family_of(architecture.name)
    return architecture.model_copy(update={"family": family.id if family else None})


def gguf_classifier(layers: int | None) -> TensorClassifier:
    return TensorClassifier(catalogue_file("gguf_names.yaml")["names"], layers)


def hf_classifier(family: Family | None, layers: int | None) -> TensorClassifier:
    """The family's own names first, then what most decoders share."""
    return TensorClassifier([*(family.names if family else ()), *catalogue_file("hf_names.yaml")["names"]], layers)


def _number(digits: str | None) -> int | None:
    return int(digits) if digits is not None and len(digits) < 6 else None

"""What engines store for real configurations, beside what `read` and `plan` say of the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from upright.facts import catalog
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, KvCache
from upright.models.deriving.model import model_of
from upright.planning.choosing import plan

ASSETS = Path(__file__).parents[1] / "assets/configs"
SM120, SM100 = "8x-rtx-pro-6000-server", "hgx-b200"
# The corpus names silicon where a layout hangs on it; V4.1's 8-bit rows are SM100's.
_PLAIN, _SM100_ROWS = "plain", ("deepseek-ai--DeepSeek-V4.1-Flash",)


@dataclass(frozen=True)
class Answer:
    """One figure that an engine's own source gives."""

    model: str
    engine: str
    cache_type: str
    box: str
    right: Mapping[str, Any]

    @property
    def token_bytes(self) -> float:
        return float(self.right["bytes_per_token"][self.cache_type])

    @property
    def kv_dtype(self) -> str:
        """As people ask for it."""
        return "fp8" if self.cache_type.startswith("fp8") else self.cache_type


@cache
def corpus() -> Mapping[str, Mapping[str, Any]]:
    rows = yaml.load((ASSETS / "corpus.yaml").read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {row["id"]: row for row in rows["models"]}


@cache
def raw() -> Mapping[str, Mapping[str, Any]]:
    return {name: catalog.configuration(name) for name in corpus()}


def answers() -> Iterator[Answer]:
    for name, row in corpus().items():
        for engine, right in row["right"].items():
            for cache_type in right.get("bytes_per_token", ()):
                on = SM100 if _PLAIN in cache_type or (name in _SM100_ROWS and cache_type == "fp8") else SM120
                yield Answer(name, engine, cache_type, on, right)


@cache
def model(name: str) -> Model:
    return model_of(raw()[name], name=name, source=name)


def planned(answer: Answer) -> KvCache:
    """The cache of the plan that a person gets who names this engine and this type."""
    goal = Goal(engine=answer.engine, kv_dtype=answer.kv_dtype, context_tokens=4096)
    return plan(catalog.box_record(answer.box), model(answer.model), goal)[0].kv

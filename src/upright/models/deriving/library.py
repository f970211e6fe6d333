"""A type of model -> what transformers takes for keys that its configuration lacks, and its other names for keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from upright.facts.catalog.loader import OURS


@dataclass(frozen=True)
class LibraryType:
    """A configuration class as recorded by scripts/record-library-defaults."""

    defaults: Mapping[str, Any]
    names: Mapping[str, str]
    """Another spelling for each key, both ways."""
    source: str


def library_type(model_type: str | None) -> LibraryType:
    recorded = _recorded()
    row = recorded["types"].get(model_type) if model_type else None
    if row is None:
        return LibraryType({}, {}, "")
    names = row.get("names", {})
    both = {**{other: name for name, other in names.items()}, **names}
    return LibraryType(row["keys"], both, f"{recorded['source']} {row['class']}")


@cache
def _recorded() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((OURS / "library_defaults.json").read_text(encoding="utf-8"))
    return content

"""Keys that no reader asked for -> those that may decide memory.

Three lists, all rows of the catalogue: names that were reviewed and do not decide memory, endings of such names, and
parts of names that smell of attention, caches, experts or layers. A value that is off (None, False, 0, empty) turns
nothing on. In a family that nobody knows every leftover key is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from upright.base.yaml12 import from_yaml
from upright.facts.catalog.loader import OURS

_MOST_TOLD = 40


def telling(left_over: Iterable[tuple[str, Any]], layers: int, *, known: bool) -> tuple[str, ...]:
    """The names to tell, as the file spells them."""
    inert, endings, smells = _lists()
    told = []
    for path, entry in left_over:
        name = path.rpartition(".")[2]
        if _off(entry) or name in inert or name.startswith("_") or endings.search(name):
            continue
        if not known or smells.search(name.lower()) or _layered(entry, layers):
            told.append(path)
    return tuple(told[:_MOST_TOLD])


def _off(entry: Any) -> bool:
    return entry is None or entry is False or entry == 0 or (isinstance(entry, str | list | Mapping) and not entry)


def _layered(entry: Any, layers: int) -> bool:
    """A list with a value for each layer, or a mapping: a shape that decides something."""
    if isinstance(entry, Mapping):
        return True
    return isinstance(entry, list) and len(entry) >= max(4, layers)


@cache
def twins() -> Mapping[str, str]:
    """Keys that are another name for a key."""
    names: dict[str, str] = _rows()["twins"]
    return names


@cache
def _rows() -> dict[str, Any]:
    content: dict[str, Any] = from_yaml((OURS / "keys.yaml").read_text(encoding="utf-8"))
    return content


@cache
def _lists() -> tuple[frozenset[str], re.Pattern[str], re.Pattern[str]]:
    content = _rows()
    return (
        frozenset(name for group in content["inert"] for name in group["keys"]),
        re.compile("|".join(content["endings"])),
        re.compile("|".join(content["smells"])),
    )

"""Engine + version -> what its own start code said of a model, a GPU architecture and a split.

Recorded by `scripts/ask-engine`. A refusal binds. An acceptance proves the start and nothing behind it: no kernel was
launched. What is not here was not asked.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from upright.facts.catalog.loader import OURS

FOLDER = OURS / "starts"
_TOLD_BY_FORMAT = ("layers/quantization/",)
"""Files of vLLM that refuse how weights are stored: what they say holds for that build alone."""


class StartKey(NamedTuple):
    """What was asked."""

    configuration: str
    """Name of a recorded config.json."""
    compute_capability: str
    tensor: int = 1
    pipeline: int = 1
    decode_context: int = 1
    expert_parallel: bool = False
    cache_type: str = "auto"


class RecordedStart(NamedTuple):
    """What was answered."""

    key: StartKey
    verdict: str
    """accepts, refuses or not-known."""
    stage: str
    """How far it came."""
    sentence: str
    """The engine's own; of what is not known, its beginning."""
    file: str
    line: int
    weight_bytes: int | None
    """Of a rank, as constructed."""
    block_tokens: int | None
    layers: str
    """Kinds of cache: name, tokens and bytes of a page, window, and how many layers have it."""
    context_tokens: int | None = None
    """The longest request that was asked for."""
    free_bytes: int | None = None
    """What a rank was given for its cache."""
    pool_tokens: int | None = None
    """The engine's own count of what that holds."""

    @property
    def of_this_build(self) -> bool:
        """Whether it follows from how the weights are stored, and says nothing of another build of the model."""
        return any(part in self.file for part in _TOLD_BY_FORMAT)


_LONGEST_OF_NOT_KNOWN = 120
"""Characters: why a stand-in could not answer helps whoever asks again, and no plan."""
COLUMNS = (*StartKey._fields, *RecordedStart._fields[1:])


def recorded_starts(engine: str, version: str | None) -> Mapping[StartKey, RecordedStart]:
    """Empty for a version that nobody asked."""
    return _read(FOLDER / f"{engine}-{version}.csv", "")


def recorded_refusals(engine: str, version: str | None) -> Mapping[StartKey, RecordedStart]:
    """Those alone, which a plan looks at: the other lines are not parsed."""
    return _read(FOLDER / f"{engine}-{version}.csv", ",refuses,")


@cache
def _read(path: Path, having: str) -> Mapping[StartKey, RecordedStart]:
    return read_starts(path, having) if path.is_file() else {}


def read_starts(path: Path, having: str = "") -> Mapping[StartKey, RecordedStart]:
    """Of the lines that have that in them."""
    with path.open(encoding="utf-8") as opened:
        names, *lines = opened.read().splitlines()  # a sentence is one line
    rows = csv.DictReader([names, *(line for line in lines if having in line)])
    return {start.key: start for start in map(start_of, rows)}


def start_of(row: Mapping[str, str]) -> RecordedStart:
    key = StartKey(
        row["configuration"],
        row["compute_capability"],
        int(row["tensor"]),
        int(row["pipeline"]),
        int(row["decode_context"]),
        row["expert_parallel"] == "yes",
        row["cache_type"],
    )

    def number(name: str) -> int | None:
        return int(row[name]) if row[name] else None

    return RecordedStart(
        key,
        row["verdict"],
        row["stage"],
        row["sentence"],
        row["file"],
        number("line") or 0,
        number("weight_bytes"),
        number("block_tokens"),
        row["layers"],
        number("context_tokens"),
        number("free_bytes"),
        number("pool_tokens"),
    )


def row_of_start(start: RecordedStart) -> dict[str, str]:
    """As a line of the file."""
    key = {**start.key._asdict(), "expert_parallel": "yes" if start.key.expert_parallel else ""}
    answer = start._asdict()
    if start.verdict == "not-known":
        answer["sentence"] = start.sentence[:_LONGEST_OF_NOT_KNOWN]
    return {name: _text(key.get(name, answer.get(name))) for name in COLUMNS}


def _text(field: object) -> str:
    return "" if field in (None, 0, False) else str(field)

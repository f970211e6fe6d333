"""Default configurations of every decoder family of the library: understood, or refused by key; never a traceback.

tests/assets/configs/defaults.json.xz holds what transformers 5.22.2 writes for each type without an argument.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from upright.base.errors import ReadError
from upright.models.deriving.model import model_of

ROOT = Path(__file__).parents[2]
DEFAULTS = ROOT / "tests/assets/configs/defaults.json.xz"


@cache
def defaults() -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = json.loads(lzma.decompress(DEFAULTS.read_bytes()))
    return content


@cache
def outcome(name: str) -> str:
    try:
        model = model_of(defaults()[name], name=name, source=name)
    except ReadError as refusal:
        return f"refused: {refusal}"
    return f"not understood: {', '.join(model.not_understood)}" if model.not_understood else "understood"


@pytest.mark.parametrize("name", list(defaults()))
def test_a_default_configuration_is_understood_or_refused_by_key(name: str) -> None:
    told = outcome(name)
    assert told == "understood" or len(told.partition(": ")[2]) > 3


def test_the_docs_have_the_counts() -> None:
    outcomes = [outcome(name) for name in defaults()]
    understood = outcomes.count("understood")
    named = sum(told.startswith("not understood") for told in outcomes)
    refused = len(outcomes) - understood - named
    sentence = (
        f"Of the {len(outcomes)} default configurations that transformers 5.22.2 has for decoders, {understood} are "
        f"understood, {named} are not understood and name their keys, and {refused} are refused"
    )
    text = " ".join((ROOT / "docs/reading.md").read_text(encoding="utf-8").split())
    assert sentence in text, sentence

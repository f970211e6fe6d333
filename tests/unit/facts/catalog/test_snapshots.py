"""Within one plan a name is looked up once, whether a row answers to it or none does."""

from __future__ import annotations

from collections import Counter

import pytest

import upright
from upright.facts import catalog


def test_a_name_that_nobody_knows_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[tuple[str, str]] = Counter()
    looked = catalog._find

    def counted(kind: str, name: str) -> object:
        asked[kind, name] += 1
        return looked(kind, name)

    monkeypatch.setattr(catalog, "_find", counted)
    known = catalog.box_record("2x-rtx-3090")
    gpus = tuple(gpu.model_copy(update={"row": "of-no-row", "name": "of no row"}) for gpu in known.gpus)
    plans = upright.plan("gpt-oss-20b", known.model_copy(update={"gpus": gpus}))
    assert plans
    assert ("gpus", "of-no-row") in asked
    assert max(asked.values()) <= 2, asked.most_common(3)

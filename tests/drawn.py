"""Many alike cases -> a drawn few in every run, all of them in .ci/full."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest


def drawn(cases: Sequence[Any], most: int, ids: Sequence[str]) -> list[Any]:
    """As parameters: those beyond the `most` that are drawn are marked slow. The same cases give the same draw."""
    few = set(random.Random(len(cases)).sample(range(len(cases)), min(most, len(cases))))
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), id=name, marks=() if n in few else pytest.mark.slow
        )
        for n, (case, name) in enumerate(zip(cases, ids, strict=True))
    ]

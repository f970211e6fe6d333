"""How far from full precision a quantised deployment may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from upright.base.yaml12 import from_yaml

_FULL_BITS = 16
"""A float of so many bits costs no more than rounding, which the widest row covers."""
TIMES = 3.0
"""Another model, another text and another recipe of quantisation may lose so many times as much (assumed)."""


@dataclass(frozen=True)
class Allowance:
    """Beyond this its precision does not explain the distance."""

    divergence: float
    agreement: float


@dataclass(frozen=True)
class _Loss:
    bits: float
    divergence: float
    same_top: float


def allowance(bits: Sequence[float]) -> Allowance | None:
    """Losses of the weights and of the cache add up; None where no precision is known, or lower than any measured."""
    rows = _losses()
    if not bits or min(bits) < rows[-1].bits:
        return None
    bits = [width for width in bits if width < _FULL_BITS] or [rows[0].bits]
    lost = sum(math.exp(_between(width, lambda row: math.log(row.divergence))) for width in bits)
    changed = sum(_between(width, lambda row: 1 - row.same_top) for width in bits)
    return Allowance(TIMES * lost, max(1 - TIMES * changed, 0.0))


def _between(bits: float, figure: Callable[[_Loss], float]) -> float:
    """Between two rows on a straight line; more bits than the first has cost what the first costs."""
    rows = _losses()
    for wide, narrow in pairwise(rows):
        if narrow.bits <= bits < wide.bits:
            share = (wide.bits - bits) / (wide.bits - narrow.bits)
            return figure(wide) + share * (figure(narrow) - figure(wide))
    return figure(rows[0])


@cache
def _losses() -> tuple[_Loss, ...]:
    """From the widest down."""
    text = files("upright.proof.ladder.equivalence").joinpath("losses.yaml").read_text(encoding="utf-8")
    return tuple(_Loss(**row) for row in from_yaml(text)["rows"])

"""A way to guess ahead -> the words that an engine takes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from upright.engines.facets.flags import Accepted
from upright.facts.records.recipe import Setting

Method = Literal["none", "ngram", "draft", "eagle3", "mtp", "dflash"]
GUESSES = 3
"""Tokens that a draft guesses in a round: what published runs of Kimi K2.6 use."""
LOOKED_UP_GUESSES = 5
LOOKED_UP = 4
"""Tokens whose last occurrence an n-gram lookup searches for."""


@dataclass(frozen=True)
class Candidate:
    """One way to guess ahead."""

    method: Method
    draft: str | None = None
    """The draft's file, folder or repository."""
    guesses: int = GUESSES
    """Tokens guessed in a round."""
    further: tuple[tuple[str, str | None], ...] = ()
    """Words for the engine: a flag, or a key of its configuration."""

    @property
    def name(self) -> str:
        """For people: `eagle3 kimi-k2.6-eagle3-mla, 3 guesses`."""
        if self.method == "none":
            return "no speculation"
        what = f"{self.method} {PurePath(self.draft).name}" if self.draft else self.method
        more = "".join(f", {' '.join(filter(None, pair))}" for pair in self.further)
        return f"{what}, {self.guesses} guesses{more}"

    @property
    def way(self) -> str:
        """As a person names it: what `candidate` takes."""
        first = f"{self.method}={self.draft}" if self.draft else self.method
        usual = LOOKED_UP_GUESSES if self.method == "ngram" else GUESSES
        more = () if self.guesses == usual else (f"k={self.guesses}",)
        return ",".join((first, *more, *("=".join(filter(None, pair)) for pair in self.further)))


@dataclass(frozen=True)
class Speculating:
    """What an engine offers, and how it spells that."""

    methods: tuple[Method, ...]
    settings: Callable[[Candidate, Accepted, int], list[Setting]]
    """The words; the number is of requests at once that CUDA graphs are captured for, else 0."""
    flags: tuple[str, ...]
    """What names of its flags begin with: these and no others belong to guessing."""
    gate: str | None = None
    """The flag without which a version offers nothing; None if it is asked by giving a draft."""
    captured: Callable[[Mapping[str, str | None]], int] = lambda _: 0
    """A command line -> requests at once that CUDA graphs are captured for."""


def reason(wanted: Candidate) -> str:
    return f"{wanted.method} guesses {wanted.guesses} tokens ahead: a latency feature, judged on your load"


def given(wanted: Candidate) -> list[Setting]:
    """What the person wrote after the way, as flags."""
    return [Setting(name=name, value=operand, reason="given with --speculate") for name, operand in wanted.further]

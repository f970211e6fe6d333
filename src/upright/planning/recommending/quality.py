"""How good a model's artifact is, by published scores.

Makers run benchmarks in harnesses of their own and come out higher than others do: where only a maker's figure is
known it counts less by the median gap of those models that have both. A model that beats another in the newer benchmark
counts at least as much as that one. Below 3.5 bits a weight it is another model, and no score of it is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, cast

from upright.facts import catalog
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.catalog.rows.score import ScoreRow

RANKED_BY, NEWER = "SWE-bench Verified", "Terminal-Bench 2.1"


class QualityScore(NamedTuple):
    """What an artifact is ranked by."""

    published: ScoreRow | None
    """The score that is shown; None if none was found."""
    counted: float
    """What it counts for, 0 without a score."""
    newer: float
    """In the newer benchmark, which decides between equals; 0 if unknown."""


class QualityScores:
    """Every score of the catalogue, looked at once."""

    def __init__(self) -> None:
        self._scores = cast("tuple[ScoreRow, ...]", tuple(catalog.rows("scores").values()))
        self._older = tuple(score for score in self._scores if score.benchmark == RANKED_BY)
        self._newer = tuple(score for score in self._scores if score.benchmark == NEWER)
        self.makers_gap = self._gap()

    def of(self, row: ModelRow, artifact_name: str) -> QualityScore:
        release = self._release(row.id, artifact_name)
        older, newer = (_best(scores, row.id, release) for scores in (self._older, self._newer))
        beaten = [
            self._counted(other)
            for score in (self._newer if newer else ())
            if newer and score.score <= newer.score and (other := _best(self._older, score.model, score.release))
        ]
        own = [self._counted(older)] if older else []
        return QualityScore(older or newer, max((*own, *beaten), default=0.0), newer.score if newer else 0.0)

    def _gap(self) -> float:
        """Points by which makers' own figures are above one harness for all: the median of models that have both."""
        both = {(score.model, score.release): score.score for score in self._older if score.by == "index"}
        makers = (score for score in self._older if score.by == "maker" and (score.model, score.release) in both)
        return float(median(score.score - both[score.model, score.release] for score in makers))

    def _counted(self, score: ScoreRow) -> float:
        return score.score - (self.makers_gap if score.by == "maker" else 0.0)

    def _release(self, model: str, artifact_name: str) -> str | None:
        """The release that an artifact's name holds, of those that scores are known of."""
        known = {score.release for score in self._scores if score.model == model and score.release}
        fitting = (name for name in known if re.search(rf"{re.escape(name)}(?![.\d])", artifact_name, re.IGNORECASE))
        return max(fitting, key=len, default=None)


def _best(scores: Sequence[ScoreRow], model: str, release: str | None) -> ScoreRow | None:
    """One harness for all before the maker's own."""
    known = [score for score in scores if score.model == model and score.release == release]
    return min(known, key=lambda score: (score.by != "index", -score.score), default=None)

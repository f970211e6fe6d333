"""Evidence of indexes for a model on such boxes, in one sentence.

Opt-in, and from what was read already: nothing is fetched for a plan. One signer has one vote, however many bundles of
theirs an index holds; a vote that is far from all others is left out and counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from upright.evidence.share.anonymous import gpu_kind
from upright.evidence.share.index_reading import pinned
from upright.evidence.share.pointers import Pointer, shard_key
from upright.evidence.share.seen_pointers import seen_in
from upright.facts.records.base import Part
from upright.facts.records.box import Box

_COUNTED = ("consistent", "reproduced")
_FAR = 3.0
_SPREAD = 1.4826
"""Of a normal distribution, over its median absolute deviation."""
_LEAST_SHARE = 0.05
"""Of the median: figures so near to each other are never outliers."""
_FEWEST_TO_JUDGE = 4


class IndexEvidence(Part):
    """What others measured: evidence of theirs, not ours."""

    people: int
    """Signers whose figures are in the range."""
    low: float
    """Decode for one user, in tok/s: the least of them."""
    high: float
    """The most."""
    outliers: int
    """Signers whose figures are far from all others', left out."""
    indexes: tuple[str, ...]
    """Where they were found."""

    @property
    def sentence(self) -> str:
        who = "1 person" if self.people == 1 else f"{self.people} people"
        rates = f"{self.low:.0f}" if self.people == 1 else f"{self.low:.0f} to {self.high:.0f}"
        far = f", {self.outliers} far from all others left out" if self.outliers else ""
        where = ", ".join(self.indexes)
        return f"{who} measured {rates} tok/s a user on such a box{far}: evidence of others, as {where} has it"


def index_evidence(model: str, box: Box) -> IndexEvidence | None:
    """None if no index is learned from, or none has such a bundle."""
    key, votes, names = shard_key(model, gpu_kind(box), len(box.gpus)), [], []
    for index in pinned():
        if index.learn:
            pointers = [pointer for pointer in seen_in(index) if pointer.key == key]
            votes += pointers
            names += [index.name] if pointers else []
    return median_by_signer(votes, tuple(names))


def median_by_signer(pointers: Iterable[Pointer], names: tuple[str, ...]) -> IndexEvidence | None:
    """One vote a signer: the median of theirs. What nobody signed, a claim and what was revoked count for nothing."""
    by_signer: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for pointer in pointers:
        if pointer.level in _COUNTED and pointer.signer and pointer.tokens_per_second and not pointer.revoked:
            by_signer[pointer.signer][pointer.identity] = pointer.tokens_per_second
    votes = sorted(median(rates.values()) for rates in by_signer.values())
    if not votes:
        return None
    kept = _without_outliers(votes)
    return IndexEvidence(people=len(kept), low=kept[0], high=kept[-1], outliers=len(votes) - len(kept), indexes=names)


def _without_outliers(votes: list[float]) -> list[float]:
    if len(votes) < _FEWEST_TO_JUDGE:
        return votes
    middle = median(votes)
    deviation = max(_SPREAD * median(abs(vote - middle) for vote in votes), _LEAST_SHARE * middle)
    return [vote for vote in votes if abs(vote - middle) <= _FAR * deviation]

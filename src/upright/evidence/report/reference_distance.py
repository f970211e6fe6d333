"""Distance of deployments from a reference, and from one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from upright.facts.records.evidence import Evidence
from upright.proof.ladder.equivalence.distance import distance_ratio
from upright.proof.ladder.rungs.equivalence import NAME, PROMPT

HEADINGS = ("deployment", "KL divergence, nats a token", "top-1 agreement", "tasks lost", "tasks gained")


@dataclass(frozen=True)
class DistanceTable:
    """A table and what it says."""

    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...]


def distance_table(proofs: Sequence[tuple[str, Evidence | None]]) -> DistanceTable | None:
    """None unless at least two of them were compared with a reference."""
    compared = [(name, proof) for name, proof in proofs if proof is not None and _figures(proof)]
    if len(compared) < 2:
        return None
    pairs = [_sentence(*first, *second) for first, second in combinations(compared, 2)]
    return DistanceTable(tuple(_row(name, _figures(proof)) for name, proof in compared), tuple(pairs))


def _row(name: str, figures: dict[str, float]) -> tuple[str, ...]:
    mean, low, high = (figures[key] for key in ("divergence", "divergence_low", "divergence_high"))
    agreement = [100 * figures[key] for key in ("agreement", "agreement_low", "agreement_high")]
    tasks = f"{figures['lost']:.0f} of {figures['tasks']:.0f}"
    return (
        name,
        f"{mean:.2g} ({low:.2g} to {high:.2g})",
        "{:.2f} % ({:.2f} to {:.2f})".format(*agreement),
        tasks,
        f"{figures['gained']:.0f}",
    )


def _sentence(first: str, ours: Evidence, second: str, theirs: Evidence) -> str:
    before, after = _by_prompt(ours), _by_prompt(theirs)
    names = [name for name in before if name in after]
    if not names:
        return f"{first} and {second} have no prompt in common"
    ratio = distance_ratio([before[name] for name in names], [after[name] for name in names])
    if ratio.high < 1:
        return _sentence(second, theirs, first, ours)
    if ratio.low <= 1:
        return f"{first} and {second} cannot be told apart on {len(names)} prompts"
    times, low, high = (_times(figure) for figure in (ratio.estimate, ratio.low, ratio.high))
    return f"{second} is {times} times as far as {first} ({low} to {high})"


def _times(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10 else f"{figure:.2g}"


def _figures(proof: Evidence) -> dict[str, float]:
    """Of its sums; empty if one of them is not there."""
    sums = {seen.check: seen.measured for seen in proof.of(NAME) if seen.check != PROMPT}
    known = [sums.get(check) for check in ("divergence", "agreement", "flips")]
    return {name: figure for figures in known for name, figure in (figures or {}).items()} if all(known) else {}


def _by_prompt(proof: Evidence) -> dict[str, float]:
    asked = [seen for seen in proof.of(NAME) if seen.check == PROMPT and "divergence" in seen.measured]
    return {str(seen.probe): seen.measured["divergence"] for seen in asked}

"""Compares two sets of cells: which is better, where, by how much, and how sure that is.

Only cells that are what they claim to be are compared, the same with the same. Taken in turns they are compared
pair by pair; taken on two occasions, as two samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from upright.facts.records.benchmark import Cell, Shape
from upright.proof.benchmark.rows import METRIC, Metric, ShapeRow
from upright.proof.benchmark.statistics import ALIKE, Mean, Ratio, is_informative, paired, unpaired

COMPARED = ("output", "ttft", "tpot")
Winner = Literal["a", "b"]


@dataclass(frozen=True)
class Difference:
    """One metric in one cell."""

    shape: Shape
    metric: Metric
    a: Mean
    b: Mean
    ratio: Ratio
    """b over a."""
    pairs: int | None
    """How many pairs it rests on, taken in turns; None for two occasions."""

    @property
    def in_turns(self) -> bool:
        return self.pairs is not None

    @property
    def percent(self) -> float:
        return 100 * (self.ratio.factor - 1)

    @property
    def better(self) -> Winner | None:
        """None if the difference may be chance."""
        if not self.ratio.sure:
            return None
        return "b" if (self.ratio.factor > 1) == self.metric.more_is_better else "a"

    @property
    def interval(self) -> str:
        """-3.0 to +4.1 %; in words where it says nothing."""
        low, high = self.ratio.low, self.ratio.high
        if low is None or high is None:
            return "one repeat"
        return (
            f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %" if is_informative(low, high) else "too wide to tell"
        )


def compare(a: Sequence[ShapeRow], b: Sequence[ShapeRow]) -> list[Difference]:
    """Everything that both measured."""
    others = {_place(row.shape): row for row in b if not row.marked}
    differences = []
    for row in a:
        other = others.get(_place(row.shape))
        if row.marked or other is None:
            continue
        for name in COMPARED:
            before, after = row.mean(name), other.mean(name)
            if before is None or after is None:
                continue
            pairs = _pairs(row, other, METRIC[name])
            ratio = paired(*pairs) if pairs else unpaired(row.values(name), other.values(name))
            count = len(pairs[0]) if pairs else None
            differences.append(Difference(row.shape, METRIC[name], before, after, ratio, count))
    return differences


def comparison_sentences(differences: Sequence[Difference], names: dict[str, str]) -> list[str]:
    """In sentences, the sum first."""
    if not differences:
        return ["Nothing can be compared: no cell was measured cleanly in both."]
    wins: dict[str, int] = {"a": 0, "b": 0}
    for difference in differences:
        if difference.better:
            wins[difference.better] += 1
    total = len(differences)
    sentences = []
    if not any(wins.values()):
        sentences.append(_nobody_wins(differences))
    elif wins["a"] and wins["b"]:
        sentences.append(
            f"It depends: {names['a']} is better in {wins['a']} of {total} comparisons, {names['b']} in {wins['b']}."
        )
    else:
        best = "a" if wins["a"] else "b"
        unsure = sum(not difference.ratio.alike and difference.better is None for difference in differences)
        rest = f"; {unsure} cannot be told apart from chance" if unsure else ""
        sentences.append(f"{names[best]} is better in {wins[best]} of {total} comparisons, and worse in none{rest}.")
    sentences += [_sentence(difference, names) for difference in differences if difference.better]
    return sentences


def _nobody_wins(differences: Sequence[Difference]) -> str:
    """No difference is a finding, and needs intervals that leave one out; else nobody can tell."""
    total, alike = len(differences), sum(difference.ratio.alike for difference in differences)
    if alike == total:
        return f"No difference: in all of {total} comparisons it is surely below {100 * (ALIKE - 1):.0f} %."
    why = (
        "one repeat each" if all(d.ratio.low is None for d in differences) else "the repeats vary more than they differ"
    )
    some = f" {alike} of {total} are surely alike." if alike else ""
    return (
        f"Cannot tell which is better in {total - alike} of {total} comparisons: {why}; more repeats would tell.{some}"
    )


def shape_words(shape: Shape) -> str:
    how = f"{shape.requests_per_second:g} a second" if shape.arrival == "open" else f"{shape.concurrency:,} at once"
    turns = f", {shape.turns} turns" if shape.turns > 1 else ""
    return f"{shape.prompt_tokens:,} in, {shape.output_tokens:,} out, {how}{turns}"


def _sentence(difference: Difference, names: dict[str, str]) -> str:
    assert difference.better is not None
    ratio = difference.ratio
    factor, low, high = ratio.factor, ratio.low or 0.0, ratio.high or 0.0
    if difference.better == "a":
        factor, low, high = 1 / factor, 1 / high, 1 / low
    how = f"{abs(100 * (factor - 1)):.1f} % {'more' if factor > 1 else 'less'} {difference.metric.words}"
    ends = sorted((100 * (low - 1), 100 * (high - 1)))
    count = (
        f"{difference.pairs} pairs"
        if difference.pairs is not None
        else f"{difference.a.count} and {difference.b.count} repeats"
    )
    return (
        f"{shape_words(difference.shape)}: {names[difference.better]} has {how}"
        f" (95 % interval {ends[0]:+.1f} to {ends[1]:+.1f} %, {count})."
    )


def _pairs(a: ShapeRow, b: ShapeRow, metric: Metric) -> tuple[list[float], list[float]] | None:
    """Values of the repeats that both have clean, if they took turns in one run; None if they did not."""
    if a.cells[0].run != b.cells[0].run or a.subject == b.subject:  # on another machine a run may have the same name
        return None
    firsts, seconds = _by_repeat(a.clean), _by_repeat(b.clean)
    both = [
        (before, after)
        for repeat in sorted(firsts.keys() & seconds.keys())
        if (before := metric.of(firsts[repeat])) and (after := metric.of(seconds[repeat]))
    ]
    return ([before for before, _ in both], [after for _, after in both]) if both else None


def _by_repeat(cells: Sequence[Cell]) -> dict[int, Cell]:
    return {cell.repeat: cell for cell in cells}


def _place(shape: Shape) -> tuple[object, ...]:
    """What must be the same; how many requests were sent may differ."""
    return (
        shape.prompt_tokens, shape.output_tokens, shape.concurrency, shape.arrival, shape.requests_per_second,
        shape.turns, shape.turn_tokens, shape.shared_tokens,
    )  # fmt: skip

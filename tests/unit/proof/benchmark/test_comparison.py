"""Which is better, where, by how much, and how sure: on cells whose truth is known."""

from __future__ import annotations

import random

from tests.scripted.cells import cell
from upright.facts.records.benchmark import Spread
from upright.proof.benchmark.comparison import compare, comparison_sentences
from upright.proof.benchmark.rows import ShapeRow, rows

NAMES = {"a": "plain", "b": "draft"}


def table(subject: str, gain: float, *, run: str = "r", noise: float = 0.01, drift: float = 1.0) -> list[ShapeRow]:
    rng = random.Random(f"{subject} {run}")
    return rows(
        cell(subject, streams, repeat, 50 * streams * gain * drift**repeat * rng.uniform(1 - noise, 1 + noise), run)
        for streams in (1, 8)
        for repeat in range(1, 6)
    )


def test_a_difference_is_found_in_its_size_and_its_direction():
    found = compare(table("a", 1.0), table("b", 1.2))
    assert len(found) == 6
    assert {item.better for item in found} == {"b"}
    assert all(item.in_turns for item in found)
    output = found[0]
    assert output.ratio.low < 1.2 < output.ratio.high
    said = comparison_sentences(found, NAMES)
    assert said[0] == "draft is better in 6 of 6 comparisons, and worse in none."
    assert said[1].startswith("256 in, 100 out, 1 at once: draft has ")
    assert "more output tokens a second (95 % interval +1" in said[1]
    assert "less time to first token" in said[2]


def test_the_same_twice_is_no_difference():
    found = compare(table("a", 1.0), table("b", 1.0, noise=0.03))
    assert sum(item.better is not None for item in found) <= 1


def test_what_drifts_touches_both_when_they_take_turns():
    """The machine slows down by 10 % with every repeat; b is 5 % faster throughout."""
    in_turns = compare(table("a", 1.0, drift=0.9), table("b", 1.05, drift=0.9))
    assert {item.better for item in in_turns} == {"b"}
    apart = compare(table("a", 1.0, drift=0.9), table("b", 1.05, drift=0.9, run="other"))
    assert {item.better for item in apart} == {None}
    assert comparison_sentences(apart, NAMES)[0] == (
        "Cannot tell which is better in 6 of 6 comparisons: the repeats vary more than they differ; "
        "more repeats would tell."
    )


def test_a_marked_cell_is_not_compared():
    marked = [cell("b", streams, 1, 1000, marks=("queued",)) for streams in (1, 8)]
    assert compare(table("a", 1.0), rows(marked)) == []
    assert comparison_sentences([], NAMES) == ["Nothing can be compared: no cell was measured cleanly in both."]
    half = rows([*marked, *(cell("b", 1, repeat, 60) for repeat in (2, 3))])
    (first, *_) = compare(table("a", 1.0), half)
    assert first.b.value == 60


def test_the_pairs_that_are_told_are_those_that_were_compared():
    """Four clean repeats of one and two of the other are two pairs."""
    a = rows(cell("a", 1, repeat, 50 + repeat / 9) for repeat in (1, 2, 3, 4))
    b = rows(cell("b", 1, repeat, 90 + repeat / 9) for repeat in (1, 2))
    found = compare(a, b)
    assert {item.pairs for item in found} == {2}
    assert ", 2 pairs)." in comparison_sentences(found, NAMES)[1]


def test_runs_of_one_name_on_two_machines_took_no_turns():
    assert {item.in_turns for item in compare(table("a", 1.0), table("a", 1.2))} == {False}


def test_a_time_of_nothing_is_not_compared():
    """As tools write it of answers that have one token."""
    nothing = Spread(count=1, mean=0, low=0, p50=0, p90=0, p99=0, high=0)
    a, b = (
        rows([cell("a", 1, 1, speed, run).model_copy(update={"tpot_seconds": nothing})])
        for speed, run in ((50, "one"), (60, "other"))
    )
    assert [item.metric.name for item in compare(a, b)] == ["output", "ttft"]


def test_single_values_are_never_sure():
    found = compare(rows([cell("a", 1, 1, 50)]), rows([cell("b", 1, 1, 100)]))
    assert comparison_sentences(found, NAMES)[0] == (
        "Cannot tell which is better in 3 of 3 comparisons: one repeat each; more repeats would tell."
    )


def test_each_is_better_somewhere():
    a = rows([*(cell("a", 1, n, 50 + n / 9) for n in range(4)), *(cell("a", 8, n, 400 + n) for n in range(4))])
    b = rows([*(cell("b", 1, n, 80 + n / 9) for n in range(4)), *(cell("b", 8, n, 300 + n) for n in range(4))])
    assert (
        comparison_sentences(compare(a, b), NAMES)[0]
        == "It depends: plain is better in 3 of 6 comparisons, draft in 3."
    )


def test_no_difference_is_a_finding_and_needs_a_narrow_interval():
    alike = compare(table("a", 1.0, noise=0.005), table("b", 1.0, noise=0.005))
    quiet = [difference for difference in alike if difference.better is None]
    assert quiet
    assert all(difference.ratio.alike for difference in quiet)
    assert comparison_sentences(quiet, NAMES)[0].startswith(f"No difference: in all of {len(quiet)} comparisons")


def test_an_interval_that_says_nothing_is_not_printed():
    """Two pairs, the one of which doubled and the other grew fourfold: anything may be true."""
    before = rows(cell("a", 1, repeat, 50) for repeat in (1, 2))
    after = rows(cell("b", 1, repeat, figure) for repeat, figure in ((1, 100), (2, 200)))
    output = compare(before, after)[0]
    assert output.ratio.high is not None
    assert output.ratio.high > 50
    assert (output.better, output.ratio.alike, output.interval) == (None, False, "too wide to tell")
    assert comparison_sentences([output], NAMES)[0].startswith("Cannot tell which is better in 1 of 1")

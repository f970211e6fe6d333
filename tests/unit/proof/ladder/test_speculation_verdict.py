"""Cells with known figures -> verdicts, objections and one recommendation; and what was published."""

from __future__ import annotations

import pytest

from tests.scripted.cells import cell
from upright.facts.catalog.speculation_pairs import nearest_pair, pairs
from upright.facts.records.benchmark import Benchmark, Cell, EngineView, Skipped
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.speculation import Tried
from upright.proof.ladder import speculation_verdict as verdict

BASE = (100.0, 101.0, 99.0, 100.0)


def measured(streams: int, speeds: tuple[float, ...], base: tuple[float, ...] = BASE, accepted: int = 60) -> list[Cell]:
    view = EngineView(drafted_tokens=100, accepted_tokens=accepted)
    found = [cell("a", streams, repeat, speed) for repeat, speed in enumerate(base, start=1)]
    drafted = [cell("b", streams, repeat, speed) for repeat, speed in enumerate(speeds, start=1)]
    return [*found, *(each.model_copy(update={"engine": view}) for each in drafted)]


def benchmark(cells: list[Cell], skipped: tuple[Skipped, ...] = ()) -> Benchmark:
    return Benchmark(
        run="r", title="t", workload="speculation", about="", deployment="d", model="m", engine="vllm",
        engine_version=None, base_url=None, at="", seed=0, repeats=4, self_test=None, cells=tuple(cells),
        skipped=skipped, subjects={"a": "as it is", "b": "with it"},
    )  # fmt: skip


def tried(cells: list[Cell], method: str = "ngram", **fields: object) -> Tried:
    plain = {
        "name": f"{method}, 3 guesses", "way": method, "method": method, "settings": (), "recipe": "recipe:b",
        "outcome": "stepped back", "reason": "", "cells": verdict.cells(benchmark(cells), "b", method),
    }  # fmt: skip
    return Tried.model_validate({**plain, **fields})


def unmeasured(streams: int) -> list[Cell]:
    """The base alone: time was out before the candidate's turn."""
    return [each for each in measured(streams, ()) if each.subject == "a"]


WINS, LOSES, SAME = (132.0, 131.0, 133.0, 132.0), (86.0, 85.0, 87.0, 86.0), (103.0, 98.0, 101.0, 99.0)


def test_a_cell_is_judged_by_its_interval() -> None:
    found = tried([*measured(1, WINS), *measured(4, SAME), *measured(128, LOSES)])
    assert [each.verdict for each in found.cells] == ["wins", "no difference", "loses"]
    win = found.cells[0]
    assert win.output is not None
    assert win.output.factor == pytest.approx(1.32, abs=0.01)
    assert (win.pairs, win.acceptance) == (4, 0.6)
    assert win.reason.startswith("wins: +32.0 % (+")


def test_two_pairs_far_apart_cannot_tell_and_print_no_interval() -> None:
    (noisy,) = tried(measured(1, (100.0, 270.0))).cells
    assert noisy.verdict == "cannot tell"
    assert noisy.reason.endswith("(interval too wide) output tokens a second")


def test_what_was_not_measured_says_why() -> None:
    marked = [each.model_copy(update={"marks": ("the server went away",)}) for each in measured(1, WINS)]
    assert [(each.verdict, each.reason) for each in tried(marked).cells] == [("not measurable", "the server went away")]
    alone = [each for each in measured(1, WINS) if each.subject == "a"]
    fell = Skipped(shape=alone[0].shape, reason="b fell: it does not start")
    (only,) = verdict.cells(benchmark(alone, (fell,)), "b", "ngram")
    assert (only.verdict, only.reason) == ("not measurable", "it does not start")


def test_one_pair_is_never_a_win() -> None:
    (only,) = tried(measured(1, (200.0,), (100.0,))).cells
    assert (only.verdict, only.pairs) == ("not measurable", 1)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (tried(measured(1, WINS)), None),
        (tried([*measured(1, WINS), *measured(4, SAME)]), None),
        (tried([*measured(1, WINS), *measured(4, LOSES)]), "it loses in 1 of 2 cells (-14 % at"),
        (tried(measured(1, SAME)), "no difference above 10 % in any of 1 cells"),
        (
            tried([*measured(1, WINS), *unmeasured(4)]),
            "1 of 2 cells could not be measured (256 in, 100 out, 4 at once: it was not measured), though it wins in 1",
        ),
        (tried([*measured(1, WINS), *unmeasured(128)]), None),
        (tried([*measured(1, SAME), *unmeasured(128)]), "no difference above 10 % in any of 1 cells"),
        (tried(measured(1, WINS), pool_tokens=4000), "its cache holds 4,000 tokens, and 4 x 1,024 are promised"),
        (tried(measured(1, WINS), outcome="damages", reason="2 answers"), "2 answers"),
        (tried([]), "nothing could be measured"),
    ],
)
def test_why_it_is_not_kept(found: Tried, said: str | None) -> None:
    objection = verdict.objection(found, 1024, 4)
    assert objection is None if said is None else (objection or "").startswith(said)


def test_the_best_of_several_is_the_one_with_the_largest_gain() -> None:
    small, large = tried(measured(1, (110.0, 111.0, 109.0, 110.0))), tried(measured(1, WINS), "draft")
    loses = tried(measured(1, LOSES), "eagle3")
    assert verdict.best([small, large, loses], 1024, 4) is large
    assert verdict.best([loses], 1024, 4) is None
    words = verdict.recommendation([loses.model_copy(update={"reason": "it loses"})], 1024, 4, None)
    assert words == "For 4 users with 1,024 tokens: leave speculation off. eagle3, 3 guesses: it loses."
    kept = large.model_copy(update={"outcome": "kept"})
    assert "keep draft, 3 guesses; it wins in 1 of 1 cells (+32 % at" in verdict.recommendation([kept], 1024, 1, None)


def test_cells_that_were_not_measured_are_counted() -> None:
    found = tried([*measured(1, WINS), *unmeasured(128)])
    assert verdict.recommendation([found], 1024, 4, None).endswith(
        " at once) and loses in none; 1 beyond the goal could not be measured."
    )
    assert verdict.best([found], 1024, 128) is None, "128 users are promised, and nobody knows what it does to them"


def test_collapse_all_in_all_and_from_some_load_on() -> None:
    assert verdict.collapses(1000, 0.03, ()) == ("acceptance collapsed: 3.0 % of 1,000 guesses held",)
    assert verdict.collapses(50, 0.0, ()) == (), "too few to say"
    assert verdict.collapses(99, 0.0, ()) == ()
    assert verdict.collapses(100, 0.0, ()), "as many as it takes"
    assert verdict.collapses(1000, verdict.COLLAPSED, ()) == (), "not below"
    uneven = tried([*measured(1, WINS, accepted=60), *measured(4, SAME, accepted=8)]).cells
    (words,) = verdict.collapses(200, 0.34, uneven)
    assert words.startswith("acceptance collapses at 256 in, 100 out, 4 at once: 8 %, elsewhere up to 60 %")


def test_what_the_cache_lost() -> None:
    found = tried([], pool_tokens=418_016)
    words = verdict.pool_words(found, 478_992, None)
    assert words == "the cache holds 418,016 tokens, 478,992 without it (-12.7 %)"
    assert verdict.pool_words(tried([]), 1, 1) is None


def look(*answers: tuple[str, str, str]) -> Evidence:
    """(probe, verdict, text)."""
    seen = [
        Observation.model_validate(
            {"rung": "smoke", "check": "x", "probe": probe, "verdict": judged, "reason": judged, "at": "", "seconds": 0,
             "request": {}, "response": {"choices": [{"message": {"content": text}}]}}
        )
        for probe, judged, text in answers
    ]  # fmt: skip
    return Evidence(
        deployment="d", engine=None, engine_version=None, to_rung="smoke", observations=tuple(seen), prompts="p"
    )


def test_damage_is_what_was_right_and_is_wrong_now() -> None:
    before = look(
        ("one", "passed", "Paris"), ("two", "failed", "5"), ("three", "passed", "a b"), ("four", "passed", "x")
    )
    after = look(
        ("one", "failed", "sglurb"), ("two", "failed", "6"), ("three", "passed", "a  b"), ("four", "passed", "x")
    )
    assert verdict.damage(before, after) == (("smoke one: failed",), 4, 1)


def test_answers_that_break_under_load_are_damage() -> None:
    def looked_at(cells: list[Cell], subject: str, broken: int) -> list[Cell]:
        said = {"complaints": {"flood": broken} if broken else {}, "sampled": 4}
        return [each.model_copy(update=said) for each in cells if each.subject == subject]

    cells = measured(1, WINS)
    sound = benchmark([*looked_at(cells, "a", 0), *looked_at(cells, "b", 0)])
    assert verdict.broken_under_load(sound, "b") is None
    both = benchmark([*looked_at(cells, "a", 3), *looked_at(cells, "b", 3)])
    assert verdict.broken_under_load(both, "b") is None, "they were made to go on past their end"
    broken = benchmark([*looked_at(cells, "a", 0), *looked_at(cells, "b", 3)])
    words = verdict.broken_under_load(broken, "b")
    assert words is not None
    assert words.startswith("under load 12 of 16 answers are broken (")
    assert words.endswith("0 of 16 without it")


def test_the_published_pairs_say_what_the_reports_say() -> None:
    """+32 % for one user, about +1 % at 128, -14 % at 128 with DCP8; 13 to 37 % of the cache."""
    assert len(pairs()) > 100
    found = {
        (at_once, ranks): nearest_pair("eagle3", 0, at_once, ranks) for at_once, ranks in ((1, 1), (128, 1), (128, 8))
    }
    gains = {key: round(100 * (pair.factor - 1)) for key, pair in found.items() if pair is not None}
    assert gains == {(1, 1): 32, (128, 1): 1, (128, 8): -14}
    shares = [pair.pool_share for pair in found.values() if pair is not None and pair.pool_share]
    assert (round(100 * (1 - max(shares))), round(100 * (1 - min(shares)))) == (13, 37)
    assert nearest_pair("ngram", 0, 1) is None, "nobody published one"


def test_a_cell_of_eagle3_names_the_nearest_publication() -> None:
    (only,) = tried(measured(1, WINS), "eagle3").cells
    assert only.published is not None
    assert only.published.rows == ("m023", "m001")
    assert only.published.source.startswith("https://")

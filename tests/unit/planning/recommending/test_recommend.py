"""What is recommended: quality first, then what holds; bounds change nothing but the time."""

from __future__ import annotations

import re

import pytest

import upright
from upright.base.units import GIB
from upright.facts import catalog
from upright.facts.catalog.rows.score import ScoreRow
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal
from upright.planning.choosing.artifacts import artifact_choice, releases_of
from upright.planning.choosing.table import plan
from upright.planning.recommending import recommend
from upright.planning.recommending.candidates import ruled_out
from upright.planning.recommending.quality import NEWER, RANKED_BY, QualityScores


def _box(name: str, gib: int | None = None) -> Box:
    box = catalog.box_record(name)
    if gib is None:
        return box
    memory = Figure(value=gib * GIB, basis="assumed", source="--ram")
    return box.model_copy(update={"memory_bytes": memory, "memory_available_bytes": memory})


@pytest.fixture(scope="module")
def everything() -> upright.Recommendation:
    return recommend(_box("2x-rtx-5090", 512), most=None)


def test_two_5090_with_much_ram_are_offered_frontier_models(everything):
    known = {offer.model: offer for offer in everything.offers}
    frontier = [name for name, offer in known.items() if offer.parameters > 100e9 and offer.decode is not None]
    assert len(frontier) >= 5, frontier
    assert {"gpt-oss-120b", "kimi-k2.6", "glm-5.3"} <= known.keys()
    assert known["gpt-oss-120b"].offloaded_layers > 0
    assert known["gpt-oss-120b"].decode is not None


def test_the_short_table_is_the_beginning_of_the_long_one(everything):
    """Stopping early changes nothing: whatever was not planned could not have come before."""
    short = recommend(_box("2x-rtx-5090", 512))
    assert [offer.model for offer in short.offers] == [offer.model for offer in everything.offers][: len(short.offers)]
    assert short.artifacts_planned < everything.artifacts_planned


@pytest.mark.parametrize(("name", "ram"), [("2x-rtx-3090", None), ("dgx-spark", None), ("2x-rtx-5090", 512)])
def test_what_is_recommended_is_what_its_name_is_planned_as(name, ram):
    box = _box(name, ram)
    for offer in recommend(box).offers:
        choice = artifact_choice(offer.model, upright.read)
        best = plan(box, choice.model, choose_from=choice.choose_from)[0]
        shown = (best.model, best.engine, best.context_tokens, best.speed.decode if best.speed else None)
        assert (offer.artifact, offer.engine, offer.context_tokens, offer.decode) == shown


def test_no_score_is_taken_for_weights_that_lost_much(everything):
    lossy = [offer for offer in everything.offers if offer.bits < 3]
    assert lossy
    for offer in lossy:
        assert offer.quality is None
        assert "no published score" in offer.quality_why


def test_every_model_is_offered_or_refused_with_a_reason(everything):
    named = {offer.model for offer in everything.offers} | {refusal.model for refusal in everything.refusals}
    assert named == {name for row in catalog.models() for name in releases_of(row)}
    assert all(refusal.why for refusal in everything.refusals)


def test_bounds_refuse_nothing_that_would_fit(everything):
    """Whatever was offered passes the bound, with its own speed asked for."""
    box = _box("2x-rtx-5090", 512)
    for offer in everything.offers:
        slowest = offer.decode.best if offer.decode else None
        row = catalog.find_model(offer.source)
        named = [
            build for build in row.artifacts if offer.source in (build.repository, f"{build.repository}:{build.quant}")
        ]
        assert [ruled_out(row, build, box, slowest) for build in named] == [None], offer.model


def test_what_is_asked_for_holds():
    asked = recommend(_box("2x-rtx-5090", 512), Goal(minimum_tokens_per_second=30, context_tokens=32_768, users=2))
    assert asked.offers
    for offer in asked.offers:
        assert offer.decode is not None
        assert (offer.decode.best or 0) >= 30
        assert offer.users_at_context >= 2
        assert offer.context_tokens == 32_768


def test_where_nothing_fits_there_is_no_offer_and_a_reason():
    none = recommend(_box("laptop", 1))
    assert none.offers == ()
    assert none.why == "no model of the catalogue fits this box as asked"
    assert none.run is None


def test_makers_own_figures_count_less_by_the_median_gap():
    standings = QualityScores()
    scores = [row for row in catalog.rows("scores").values() if isinstance(row, ScoreRow)]
    index = {(row.model, row.release): row.score for row in scores if (row.benchmark, row.by) == (RANKED_BY, "index")}
    makers = {(row.model, row.release): row.score for row in scores if (row.benchmark, row.by) == (RANKED_BY, "maker")}
    gaps = sorted(makers[key] - index[key] for key in makers.keys() & index.keys())
    middle = len(gaps) // 2
    median = gaps[middle] if len(gaps) % 2 else (gaps[middle - 1] + gaps[middle]) / 2
    assert standings.makers_gap == pytest.approx(median)
    only_maker = standings.of(catalog.model("qwen3.6-27b"), "Qwen/Qwen3.6-27B")
    assert only_maker.counted == pytest.approx(77.2 - median)


def test_releases_of_one_row_have_scores_of_their_own():
    standings, row = QualityScores(), catalog.model("glm-5")
    older, newer = (standings.of(row, name) for name in ("nvidia/GLM-5-NVFP4", "unsloth/GLM-5.1-GGUF"))
    assert older.published is not None
    assert newer.published is not None
    assert (older.published.score, newer.published.score) == (73.4, 75.0)


def test_who_wins_in_the_newer_benchmark_counts_at_least_as_much():
    standings = QualityScores()
    beaten = standings.of(catalog.model("minimax-m2.7"), "MiniMaxAI/MiniMax-M2.7")
    winner = standings.of(catalog.model("glm-5.3"), "zai-org/GLM-5.3")
    assert winner.newer > beaten.newer > 0
    assert winner.counted >= beaten.counted


def test_every_score_is_of_a_model_of_the_catalogue_and_says_where_it_was_read():
    for row in catalog.rows("scores").values():
        assert isinstance(row, ScoreRow)
        assert catalog.find_model(row.model) is not None, row.id
        assert 0 < row.score < 100
        assert row.benchmark in (RANKED_BY, NEWER)
        assert "read 2026" in row.sources[0]


def test_the_library_asks_as_the_command_line_does():
    asked = upright.recommend("1x-rtx-5090", users=2, context_tokens=32_768)
    assert asked.goal.users == 2
    assert asked.offers[0].users_at_context >= 2
    assert upright.load(asked.to_json()) == asked


@pytest.mark.parametrize(("box", "ram"), [("laptop", 8), ("m4-max", 16)])
def test_a_model_that_has_a_gguf_is_not_refused_for_want_of_another_engines_kernels(box, ram):
    """Of its artifacts the one that came nearest says why."""
    made = recommend(_box(box, ram), most=None)
    with_gguf = {row.id for row in catalog.models() if any(each.format == "gguf" for each in row.artifacts)}
    assert made.refusals
    for refusal in made.refusals:
        assert refusal.model not in with_gguf or not re.search("needs a GPU|no kernels", refusal.why), refusal

"""A box with published runs of the very setting: each inside its band, and that band as narrow as such runs allow."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from scripts.fitting import own_runs
from tests.accuracy.bands_at_home import AT_HOME, asked, runs
from tests.accuracy.held_out_families import unpublished
from upright.app.cli.main import cli
from upright.facts import catalog
from upright.planning.speed.own_runs import RunPoint, left_out, spanned, within

NARROW = 1.35
EVERY = 9


def test_each_lies_inside_and_the_band_is_narrow_or_says_why():
    answers = list(asked(runs()[::EVERY]))
    home = [found for _, found in answers if found is not None]
    assert len(home) >= 0.7 * len(answers)
    assert not [found for found in home if not found.inside]
    assert not [found.row.id for found in home if found.width > NARROW and not found.as_wide_as_said]
    assert sum(found.width <= NARROW for found in home) >= 0.7 * len(home)


@pytest.mark.slow
def test_all_of_them():
    home = [found for _, found in asked(runs()) if found is not None]
    assert not [found for found in home if not found.inside]
    assert not [found.row.id for found in home if found.width > NARROW and not found.as_wide_as_said]


def test_a_run_that_nobody_had_published_lies_in_the_band_of_the_others():
    """Each left out in turn, asked of the command: nine in ten, but for few."""
    inside = []
    for row in runs()[4 :: 2 * EVERY]:
        with unpublished({row.id}):
            inside += [found.inside for _, found in asked([row]) if found is not None]
    assert len(inside) >= 10
    assert sum(inside) >= 0.85 * len(inside)


def test_rows_of_transfers_are_what_leaving_out_gives_today():
    for row in own_runs.rows():
        known = catalog.get("transfers", row.id)
        assert (known.errors, known.speeds, known.beyond) == (row.errors, row.speeds, row.beyond)  # type: ignore[attr-defined]


def test_between_two_contexts_it_is_interpolated_and_builds_are_not_mixed():
    points = [RunPoint("a", "one", 0, 0.0), RunPoint("b", "one", 6144, 0.2), RunPoint("c", "other", 0, -0.1)]
    low, high = spanned(points, RunPoint("", "", 2048, 0.0).octave)
    assert (low, high) == (pytest.approx(-0.1), pytest.approx(0.1))
    assert {round(off, 3) for off in left_out(points[:2])} == {-0.2, 0.2}


def test_a_setting_of_many_runs_weighs_as_one_of_few():
    misses = [(0.01, "table")] * 98 + [(0.5, "alone"), (0.3, "apart")]
    assert within(misses, 0.9) == 0.5
    assert within(misses, 0.3) == 0.01


def test_a_run_that_tells_no_placement_says_nothing_of_one():
    """Before, every placement of Q4_X read 18 tok/s, and a layer more on the GPUs was worth 0.22 beside it."""
    words = ["plan", "ubergarm/Kimi-K2.6-GGUF:Q4_X", "--box", "2x-rtx-pro-6000-max-q-epyc-9175f"]
    words += ["--engine", "ik_llama.cpp", "--context", "16384", "--json"]
    told = json.loads(CliRunner().invoke(cli, words).stdout)
    rates = [each["decode"]["best"] for each in told["placements"]]
    assert max(rates) / min(rates) > 1.1
    assert AT_HOME not in told["plans"][0]["speed"]["why"]

"""Overheads are fits, and the fits are the rows; the errors on pools that a fit has not seen are stated."""

from __future__ import annotations

import pytest

from scripts.fitting.pools import by_image, by_setting, fit, leave_out, pools, residual_gib
from upright.facts import catalog
from upright.facts.records.plan import Parallel
from upright.models.deriving.catalogue_models import records
from upright.planning.memory.overhead import overheads
from upright.planning.memory.reserve import ReserveCase, kinds_of, with_causes

BLACKWELL = [pool for pool in pools() if pool.gpu.startswith("rtx-pro-6000")]
HOPPER = [pool for pool in pools() if pool.gpu == "h200-sxm"]
STATED_BAND = 0.15


def row(name):
    return catalog.get("overheads", name)


def wild(pool):
    """The profiler's linear extrapolation: https://github.com/vllm-project/vllm/issues/45178"""
    return pool.graphs_counted and pool.draft != "none" and pool.decode_context > 1


def test_the_rows_are_the_fit():
    found = fit(BLACKWELL)
    assert row("vllm-runtime-sm120").gib.best == pytest.approx(found.runtime, abs=0.006)
    assert row("vllm-draft").gib.best == pytest.approx(found.draft, abs=0.006)
    assert row("vllm-graphs").gib.best == pytest.approx(found.graphs, abs=0.006)
    assert row("vllm-graphs-draft").gib.best == pytest.approx(found.graphs_with_draft, abs=0.006)


def test_kimi_on_h200_with_the_engines_own_sequences_is_what_its_causes_add_up_to():
    """Nothing of them was fitted on it: 1,024 sequences over 163,840 words are six of its eight GiB."""
    crowded, shape = fit(HOPPER).runtime, records(catalog.model("kimi-k2-thinking"))[0].architecture
    rows = overheads("vllm", "0.11.0", capability="9.0", kinds=kinds_of(shape))
    asked = ReserveCase(shape, Parallel(tensor=8), 8192, 1024, draft=False)
    runtime = with_causes({row.term: row for row in rows}, asked)["runtime"].gib
    assert 7.9 <= crowded <= 8.5
    assert runtime.low <= crowded <= runtime.high
    few = with_causes({row.term: row for row in rows}, asked._replace(sequences=4))["runtime"].gib
    assert few.high < crowded, "a few sequences take a third of it"


def test_the_rows_name_the_images_that_they_were_fitted_on():
    images = {pool.image for pool in pools()}
    for each in catalog.rows("overheads").values():
        assert set(each.pools) <= images


def test_every_residual_lies_in_the_band_of_its_row():
    bands = {"none": row("vllm-runtime-sm120").gib}
    for pool in BLACKWELL:
        if pool.draft == "none" and not pool.graphs_counted:
            assert bands["none"].low <= residual_gib(pool) <= bands["none"].high


@pytest.mark.parametrize("key", [by_image, by_setting])
def test_a_pool_that_the_fit_has_not_seen_is_inside_the_stated_band(key):
    misses = leave_out(BLACKWELL, key)
    assert len(misses) == len(BLACKWELL) == 34
    assert {miss.pool.id for miss in misses if abs(miss.error) > STATED_BAND} <= {
        "20260424-dcp4-eagle3",
        "20260424-dcp8-eagle3",
    }
    assert all(abs(miss.error) < 0.09 for miss in misses if not wild(miss.pool))


def test_the_two_rows_outside_the_band_lie_in_the_band_of_their_own_term():
    graphs = row("vllm-graphs-draft").gib
    found = fit(BLACKWELL)
    for pool in filter(wild, BLACKWELL):
        assert graphs.low <= residual_gib(pool) - found.runtime - found.draft <= graphs.high


def test_one_image_has_one_residual_whatever_the_fraction():
    """Utilisation 0.94 and 0.90, one or eight ranks to a cache: the same 3.40 GiB. So weights and bytes are right."""
    drafted = [pool for pool in BLACKWELL if pool.image == "20260505" and pool.draft == "eagle3"]
    assert {pool.memory_fraction for pool in drafted} == {0.90, 0.94}
    assert [round(residual_gib(pool), 2) for pool in drafted] == [3.41, 3.40, 3.40]


def test_the_band_with_a_draft_holds_the_wild_rows_too():
    low = row("vllm-pool-band-draft").share.low
    for miss in leave_out(BLACKWELL, by_image):
        if wild(miss.pool):
            assert miss.predicted_tokens * low <= miss.pool.tokens

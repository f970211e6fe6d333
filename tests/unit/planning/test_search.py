"""Which of the ways: what the published runs found out, with reasons; quickly, and linearly in the ways."""

from __future__ import annotations

import re
import time

import pytest

from upright import Box, Goal, Model
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.planning.choosing import plan
from upright.planning.choosing.artifacts import smaller_models
from upright.planning.choosing.rule import use_rate

K26 = records(catalog.model("kimi-k2.6"))
EIGHT, TWO, B200 = (
    catalog.box_record(name)
    for name in ("8x-rtx-pro-6000-server-dual-socket", "2x-rtx-pro-6000-max-q-epyc-9175f", "hgx-b200")
)
TOO_SMALL = catalog.box_record("8x-rtx-5090")
IMAGE = "voip-glm-kimi-canonical-20260514"


def search(box, **goal):
    return plan(box, K26[0], Goal(**goal), choose_from=K26[1:])


def test_eight_cards_get_vllm_on_eight_ranks_and_the_cache_type_of_the_image():
    best = search(EIGHT)[0]
    assert (best.engine, best.model, best.parallel.tensor) == ("vllm", "Kimi-K2.6", 8)
    assert (best.kv.dtype, best.parallel.decode_context) == ("bf16", 1)
    assert any(IMAGE in (note.remedy or "") for note in best.notes)
    assert search(EIGHT, image=IMAGE)[0].kv.dtype == "fp8"


def test_long_contexts_share_the_cache():
    for goal in ({}, {"image": IMAGE}):
        assert search(EIGHT, context_tokens=262_144, **goal)[0].parallel.decode_context > 1


def test_two_cards_and_768_gb_get_ik_llama_and_weights_that_lost_nothing():
    ranked = search(TWO)
    assert (ranked[0].engine, ranked[0].model) == ("ik_llama.cpp", "Kimi-K2.6-GGUF:UD-Q8_K_XL")
    fewer = next(found for found in ranked if found.model == "Kimi-K2.6-GGUF:IQ3_K")
    assert 1 < fewer.speed.decode.best / ranked[0].speed.decode.best < 1.5  # a little faster, and a little is lost
    head, tail = (place.layers for place in ranked[0].expert_places if place.device != "host")
    assert (head[0], tail[-1]) == (1, 60)


def test_b200_gets_its_own_answer():
    best = search(B200)[0]
    assert (best.engine, best.parallel.tensor, best.parallel.decode_context) == ("vllm", 8, 1)
    assert best.speed.row == "vllm-nvlink"
    assert best.speed.decode.best > search(EIGHT)[0].speed.decode.best
    assert search(B200, engine="vllm", kv_dtype="fp8")[0].fits


def test_every_speed_has_a_band_a_basis_and_a_reason():
    for box in (EIGHT, TWO, B200):
        for found in search(box):
            if found.speed is None:
                assert any(note.code == "speed-unknown" for note in found.notes)
                continue
            assert found.speed.decode.low <= found.speed.decode.best <= found.speed.decode.high
            assert found.speed.basis in ("measured", "derived")
            assert found.speed.why.startswith(f"speeds/{found.speed.row}, ")
            decode = sum(term.milliseconds for term in found.speed.terms if term.step == "decode")
            times = re.search(r"terms times ([\d.]+)", found.speed.why)
            assert 1000 / (decode * float(times[1] if times else 1)) == pytest.approx(found.speed.decode.best, rel=0.01)


def test_a_draft_without_acceptance_has_a_band_and_no_figure():
    unknown, known = search(EIGHT, draft=True)[0].speed, search(EIGHT, draft=True, acceptance=0.4)[0].speed
    assert unknown.decode.best is None
    assert unknown.decode.low < known.decode.best < unknown.decode.high
    assert "acceptance rate is not known" in unknown.why
    assert "acceptance rate 40%, as given" in known.why


def test_the_load_decides_what_is_counted_on():
    few, many = search(EIGHT)[0], search(EIGHT, use="batch", users=16)[0]
    assert use_rate(few) == few.speed.decode
    assert use_rate(many) == many.speed.together
    documents = search(EIGHT, use="long-documents")[0]
    assert use_rate(documents).low < documents.speed.full.low


def test_a_speed_that_cannot_be_reached_is_an_objection():
    assert [each.code for each in search(EIGHT, minimum_tokens_per_second=500)[0].objections] == ["too-slow"]
    assert search(EIGHT, minimum_tokens_per_second=30)[0].fits


@pytest.mark.timing
def test_the_whole_search_is_quick_and_linear():
    def spent(models):
        start = time.process_time()
        plan(TWO, models[0], Goal(), choose_from=models[1:])
        return time.process_time() - start

    ggufs = [each for each in K26 if each.format == "gguf"]
    spent([K26[0], *ggufs])
    few = min(spent([K26[0], *ggufs]) for _ in range(3))
    copies = [each.model_copy(update={"name": f"{each.name}-{n}", "source": f"{each.source}-{n}"})
              for n in range(4) for each in ggufs]  # fmt: skip
    many = min(spent([K26[0], *copies]) for _ in range(3))
    print(f"\n{len(ggufs)} artifacts {few:.3f} s of processor time, {len(copies)} {many:.3f} s")
    assert few <= 0.5
    assert many / few <= 1.5 * len(copies) / len(ggufs)


@pytest.mark.timing
def test_a_plan_costs_as_much_more_as_its_model_has_more_tensors():
    tied = tuple(line for line in K26[0].weights if line.group != "output")
    few, many = (
        min(_seconds(EIGHT, K26[0].model_copy(update={"weights": tied * times})) for _ in range(3)) for times in (2, 16)
    )
    print(f"\n{2 * len(tied)} tensors {few:.3f} s of processor time, eight times as many {many:.3f} s")
    assert many / few <= 8


@pytest.mark.timing
def test_what_fits_instead_costs_as_much_as_planning_it():
    """Of each model that is tried its best way alone: offers for one that does not fit cost ten times as much."""
    fit = min(_seconds(EIGHT, K26[0]) for _ in range(3))
    smaller_models(TOO_SMALL, Goal(), K26[0])
    start = time.process_time()
    others = smaller_models(TOO_SMALL, Goal(), K26[0])
    spent = time.process_time() - start
    print(f"\na plan that fits {fit:.3f} s of processor time, two other models instead {spent:.3f} s")
    assert len(others) == 2
    assert spent / fit <= 60


def _seconds(box: Box, model: Model) -> float:
    start = time.process_time()
    plan(box, model, Goal())
    return time.process_time() - start


def test_nvfp4_is_not_first_on_gpus_without_fp4():
    """Hopper unpacks NVFP4 for every multiplication (constraints/vllm-nvfp4-before-blackwell)."""
    known = records(catalog.model("glm-5"))
    hopper = plan(catalog.box_record("8x-h100"), known[0], Goal(engine="vllm"), choose_from=known[1:])
    assert hopper[0].model == "GLM-5-AWQ"
    assert "NVFP4" in next(other.model for other in hopper if other.model != "GLM-5-AWQ")

"""Predicted tokens a second against published ones: held out, carried over to other boxes, and in hybrids."""

from __future__ import annotations

import pytest

from upright.planning.speed import hybrids, runs
from upright.planning.speed.fitting import FITTED, errors, miss, predict
from upright.planning.speed.samples import measurements

EFFICIENCIES = ("weight_efficiency", "cache_efficiency", "compute_efficiency", "attention_efficiency")


@pytest.fixture(scope="module")
def held_out():
    return runs.held_out_pcie()


def test_112_cells_with_each_number_of_sharing_ranks_left_out(held_out):
    found = errors([off for _, off in held_out], "held out")
    print(f"\n{found.rows} cells, one DCP left out: median {found.median:.1%}, nine of ten within {found.ninth:.1%}")
    assert found.rows == 112
    assert found.median <= 0.08
    assert found.ninth <= 0.20


def test_the_row_states_these_errors(held_out):
    row = runs.speed_row("vllm-sm120-pcie-oneshot")
    assert row.errors == errors([off for _, off in held_out], row.errors.how)


def test_a_draft_given_its_acceptance_with_nothing_fitted_on_drafts():
    run = runs.RUNS[0]
    found = errors([miss(sample, runs.run_constants(run)) for sample in runs.run_samples(run)], run.name)
    print(f"\n{found.rows} EAGLE3 cells, acceptance given: median {found.median:.1%}, nine of ten {found.ninth:.1%}")
    assert found.rows == 112
    assert found.median <= 0.15


def test_the_rows_are_what_a_fit_gives_today():
    assert_like(runs.speed_row("vllm-sm120-pcie-oneshot").constants, runs.fit_pcie())
    assert_like(runs.speed_row("vllm-nvlink").constants, runs.fit_nvlink())
    assert_like(runs.speed_row("ik-llamacpp").constants, hybrids.fit_ik())
    assert_like(runs.speed_row("llamacpp").constants, hybrids.fit_mainline())


def test_constants_are_few_and_mean_something():
    fitted = runs.fit_pcie()
    assert len(FITTED) < 10
    assert all(0 < getattr(fitted, name) <= 0.87 + 1e-9 for name in EFFICIENCIES)
    # What NCCL was measured to do on such boxes by itself: 26.2 us and 22 to 38 GB/s (catalogue, links).
    assert 2 * 7 * fitted.hop_us == pytest.approx(26.2, rel=0.1)
    assert 20 < fitted.collective_gb_s < 38
    assert 20 < fitted.prompt_gb_s < 42


@pytest.mark.parametrize("name", ["vllm-sm120-pcie", "sglang-sm120-pcie", "sglang-nvlink"])
def test_stated_errors_of_rows_that_were_taken_over(name):
    row = runs.speed_row(name)
    assert row.errors == errors(list(runs.transfer_misses(name)), row.errors.how)


def test_transfer_errors_are_stated():
    row = runs.speed_row("vllm-sm120-pcie-oneshot")
    assert row.transfer == errors(list(runs.transfer_misses(row.id)), row.transfer.how)


def test_nvlink_boxes_with_each_kind_of_gpu_left_out():
    row = runs.speed_row("vllm-nvlink")
    assert row.errors == errors([off for _, off in runs.held_out_nvlink()], row.errors.how)


@pytest.mark.parametrize("name", ["ik-llamacpp", "llamacpp"])
def test_hybrids_are_predicted_by_constants_that_saw_no_hybrid_of_theirs(name):
    row = runs.speed_row(name)
    seen = {found.id for found in measurements(row.fitted_on)}
    unseen = [each for each in hybrids.SEEN_BY_NOBODY if each.row == name]
    assert not seen & {each.id for each in unseen}
    misses = [miss(hybrids.decoded(each), row.constants) for each in unseen]
    for each, off in zip(unseen, misses, strict=True):
        print(f"\n{each.id} {each.note}: {off:+.0%}")
    assert row.errors == errors(misses, row.errors.how)
    assert max(abs(off) for off in misses) < 0.25


def test_hybrids_turn_the_right_way():
    rows = hybrids.SEEN_BY_NOBODY
    rate = {each.id: predict(hybrids.decoded(each), runs.speed_row(each.row).constants) for each in rows}
    assert rate["m402"] < rate["m403"] < rate["m404"]  # more layers of experts on the GPUs
    assert rate["m403"] > rate["m405"]  # fewer bytes an expert
    assert rate["m405"] > rate["m406"]  # ik_llama.cpp over mainline
    assert rate["m407"] > rate["m408"]


def test_prompts_of_hybrids_are_read_faster_in_longer_ubatches():
    constants = runs.speed_row("ik-llamacpp").constants
    placed = hybrids.SEEN_BY_NOBODY[2]
    rates = [predict(hybrids.prompted(placed, ubatch), constants) for ubatch in (2048, 4096, 8192)]
    assert rates == sorted(rates)
    measured = hybrids.prompted(placed, 4096)
    assert miss(measured, constants) == pytest.approx(0, abs=0.25)


def test_eight_layers_cannot_be_in_the_vram_that_the_report_states():
    """8 + 2 layers of IQ3_K were published with 43 and 44 GiB of VRAM; eight layers alone are more."""
    case = hybrids.layered(hybrids.SEEN_BY_NOBODY[2])
    layer_gib = case.work.experts * case.work.expert_bytes / case.expert_layers / 2**30
    print(f"\none layer of experts is {layer_gib:.2f} GiB, eight are {8 * layer_gib:.0f} GiB")
    assert 8 * layer_gib > 44


def assert_like(stated, fitted):
    for name, value in fitted.model_dump().items():
        assert getattr(stated, name) == pytest.approx(value, rel=0.01), name

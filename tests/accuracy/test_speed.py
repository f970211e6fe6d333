"""Predicted tokens a second against published ones: held out at home, one step away, and in hybrids."""

from __future__ import annotations

import math
import statistics
from functools import cache

import pytest

from scripts.fitting import hybrids, speeds
from upright.facts import catalog
from upright.facts.catalog.rows.speed import SpeedRow, TransferRow
from upright.planning.speed.decode import coefficient
from upright.planning.speed.fitting import errors, miss, predict
from upright.planning.speed.rows import speed_row
from upright.planning.speed.speed_band import WIDEST, SpeedQuery, rate_band
from upright.planning.speed.spread import SpeedMiss, interval, spread

EFFICIENCIES = ("weight_efficiency", "fp4_efficiency", "cache_efficiency", "compute_efficiency", "attention_efficiency")
FITTED = [row.id for row in catalog.rows("speeds").values() if isinstance(row, SpeedRow) and row.fits]
SM120 = "vllm-sm120-pcie-oneshot"


@pytest.mark.parametrize("name", FITTED)
def test_a_row_is_what_a_fit_gives_today(name: str):
    """scripts/fit-speeds writes constants, home and errors."""
    row = speed_row(name)
    assert_like(row.constants, speeds.refit(row))
    assert row.home is not None
    assert row.home.model_copy(update={"versions": "*"}) == speeds.home(row)
    assert row.errors == speeds.home_errors(row)
    assert row.prompt_errors == speeds.home_errors(row, prompts=True)


@pytest.mark.parametrize("transfer", speeds.TRANSFERS, ids=lambda transfer: transfer.id)
def test_a_steps_cost_is_what_is_measured_today(transfer: speeds.Transfer):
    row = catalog.get("transfers", transfer.id)
    assert isinstance(row, TransferRow)
    assert row.errors == transfer.errors()
    assert row.beyond == transfer.beyond()


def test_one_more_source_lies_inside_nine_times_in_ten():
    """What a band promises, tried on every source in turn: the others' errors, and is it inside?"""
    shares: dict[str, list[float]] = {}
    rows = {row.fitted_on: row for row in map(speed_row, FITTED)}.values()
    for row in rows:
        misses = speeds.home_misses(row)
        like = [spread(speeds.home_misses(other)) for other in speeds.of_kind(row)]
        for source in {missed.source for missed in misses}:
            others = [missed for missed in misses if missed.source != source]
            if not others:
                continue
            low, high = interval(spread(others), like, borrowed=speeds.borrowed(row))
            own = [math.exp(missed.log) for missed in misses if missed.source == source]
            shares.setdefault(row.id, []).append(sum(low <= ratio <= high for ratio in own) / len(own))
    for name, of_row in shares.items():
        print(f"\n{name}: {len(of_row)} sources, {statistics.mean(of_row):.0%} inside bands of the others")
    everyone = [share for of_row in shares.values() for share in of_row]
    assert len(everyone) >= 48
    assert statistics.mean(everyone) == pytest.approx(0.9, abs=0.02)


@cache
def families_left_out() -> tuple[tuple[speeds.FittedCell, float], ...]:
    return speeds.held_out(speed_row(SM120), lambda cell: cell.load.shape)


def test_families_left_out_whole_are_predicted_by_what_is_physical():
    """On the GPUs with most published runs: fitted without the family, tested on all of it."""
    misses = families_left_out()
    for shape in dict.fromkeys(cell.load.shape for cell, _ in misses):
        sizes = [abs(off) for cell, off in misses if cell.load.shape == shape]
        print(f"\n{shape}: {len(sizes)} cells, median {statistics.median(sizes):.1%}")
    total = errors([SpeedMiss(off, cell.source) for cell, off in misses], "families")
    assert total.rows >= 240
    assert total.median <= 0.15
    assert total.ninth <= 0.40


def test_most_families_left_out_whole_lie_inside_the_band_that_would_be_printed():
    row, inside = speed_row(SM120), []
    for cell, off in families_left_out():
        away = SpeedQuery(
            "another", cell.load.expert_format, cell.load.gpu, None, cell.load.users, cell.load.context_tokens
        )
        factors = rate_band(row, away)
        assert factors is not None
        assert factors.high / factors.low <= WIDEST
        inside.append(factors.low <= 1 / (1 + off) <= factors.high)
    print(f"\n{sum(inside)} of {len(inside)} inside")
    assert sum(inside) / len(inside) >= 0.9


def test_a_version_that_nobody_measured_has_a_wider_band():
    row = speed_row("vllm-sm120-pcie")
    assert row.home is not None
    load = SpeedQuery(row.home.shapes[0], row.home.formats[0], row.home.gpus[0], "0.32.0", 1, 1024)
    known, unknown = rate_band(row, load), rate_band(row, load._replace(version="0.99.0"))
    assert known is not None
    assert unknown is not None
    assert (known.steps, unknown.steps) == ((), ("version",))
    assert unknown.high / unknown.low > known.high / known.low


def test_constants_are_what_hardware_can_do():
    fitted = speed_row(SM120).constants
    assert all(0 < getattr(fitted, name) <= 0.87 + 1e-9 for name in EFFICIENCIES)
    # What NCCL was measured to do on such boxes by itself: 26.2 us and 22 to 38 GB/s (catalogue, links).
    assert 20 < 2 * 7 * fitted.hop_us < 45
    assert 20 < fitted.collective_gb_s < 38
    assert 20 < fitted.prompt_gb_s < 42


@pytest.mark.parametrize("name", hybrids.family())
def test_hybrids_are_predicted_by_constants_that_saw_nothing_of_their_machine(name):
    row = speed_row(name)
    assert row.errors is not None
    assert row.constants.host_gb_s == pytest.approx(hybrids.host_constants(name).host_gb_s, rel=0.01)
    assert row.errors == errors(hybrids.unseen_misses(name), row.errors.how)
    for run in hybrids.SEEN_BY_NOBODY:
        if run.row == name:
            off = miss(hybrids.decoded(run), row.constants)
            print(f"\n{run.id} {run.note}: {off:+.0%}")
            assert abs(off) < 0.25


@pytest.mark.parametrize(
    "name", [row.id for row in catalog.rows("speeds").values() if isinstance(row, SpeedRow) and row.gpu_errors]
)
def test_layers_on_gpus_alone_have_an_error_of_their_own(name: str):
    row = speed_row(name)
    assert row.gpu_errors is not None
    assert row.gpu_errors == errors(hybrids.gpu_misses(name), row.gpu_errors.how)


def test_two_channels_are_read_at_nearly_their_bandwidth_and_twelve_are_not():
    """With one share for all, a desktop was planned at half of what it does."""
    runs = {run.machine: run for run in hybrids.host_runs("ik-llamacpp") if run.with_gpus}
    constants = speed_row("ik-llamacpp").constants
    shares = {}
    for machine in ("9950X", "9175F"):
        amounts = [amount for amount in runs[machine].sample.amounts(0.0) if amount.term == "memory"]
        channels = next(amount.amount for amount in amounts if amount.constant == "host_efficiency")
        shares[machine] = channels / sum(amount.amount * coefficient(constants, amount.constant) for amount in amounts)
    print(f"\n{shares}")
    assert shares["9950X"] > 0.7
    assert shares["9175F"] < 0.55


# Tokens a second, GB of weights a token, layers, GB/s of the channels; nothing was fitted on them.
_PUBLISHED_ELSEWHERE = (
    # DeepSeek-V2-Lite, experts on a Ryzen 7950X, the processor's part: ik_llama.cpp pull request 232.
    (True, 640 / (8.42 + 1.88), 0.730, 25, 64.0),
    # Qwen3-30B-A3B in UD-Q4_K_XL on a Xeon 8480, 8 channels of DDR5-4800: ik_llama.cpp issue 437.
    (False, 69.8, 1.9, 48, 307.2),
    # DeepSeek V3 in Q4_K_S on an EPYC 9374F, 12 channels of DDR5-4800: ik_llama.cpp pull request 180.
    (False, 10.01, 21.2, 61, 460.8),
    # DeepSeek R1 in Q4_K_M and Q8_0 on a Xeon 6980P, 12 channels of DDR5-6400: ik_llama.cpp pull request 259.
    (False, 10.02, 22.2, 61, 614.4),
    (False, 7.52, 39.5, 61, 614.4),
)


@pytest.mark.parametrize(("with_gpu", "rate", "gigabytes", "layers", "channels"), _PUBLISHED_ELSEWHERE)
def test_processors_from_two_to_twelve_channels(with_gpu, rate, gigabytes, layers, channels):
    constants = speed_row("ik-llamacpp").constants
    cores = constants.host_gb_s if with_gpu else constants.host_alone_gb_s
    brought, multiplied = gigabytes / (constants.host_efficiency * channels), gigabytes / cores
    seconds = brought + multiplied + layers * constants.host_layer_us / 1e6
    assert 1 / seconds == pytest.approx(rate, rel=0.2)


def test_hybrids_turn_the_right_way():
    rows = hybrids.SEEN_BY_NOBODY
    rate = {each.id: predict(hybrids.decoded(each), speed_row(each.row).constants) for each in rows}
    assert rate["m402"] < rate["m403"] < rate["m404"]  # more layers of experts on the GPUs
    assert rate["m403"] > rate["m405"]  # fewer bytes an expert
    assert rate["m405"] > rate["m406"]  # ik_llama.cpp over mainline
    assert rate["m407"] > rate["m408"]


def test_prompts_of_hybrids_are_read_faster_in_longer_ubatches():
    constants = speed_row("ik-llamacpp").constants
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
    for name, number in fitted.model_dump().items():
        assert getattr(stated, name) == pytest.approx(number, rel=0.01), name

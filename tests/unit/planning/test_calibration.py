"""Cells of a benchmark against the plan that the engine was started by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.planning.planning_examples import box, model
from upright import Goal
from upright.base.errors import UprightError
from upright.facts.catalog import versions
from upright.facts.records.base import Figure
from upright.facts.records.benchmark import Cell, Machine, Shape, Spread
from upright.planning.choosing import plan
from upright.planning.requests.calibration import BenchmarkedDeployment, calibrate_runs, runs_of_deployments
from upright.planning.speed.calibration import calibrate, cell_samples
from upright.planning.speed.fitting import predict
from upright.planning.speed.speed_band import SpeedQuery, steps_away


def spread(value):
    return Spread(count=4, mean=value, low=value, p50=value, p90=value, p99=value, high=value)


def cell(prompt, seconds, **changed):
    known = {
        "run": "r1", "workload": "sweep", "api": "chat", "at": "2026-11-15T05:00:00Z", "seconds": 9.0, "sent": 4,
        "succeeded": 4, "in_flight_mean": 1.0, "prompt_tokens": spread(prompt), "output_tokens": spread(64),
        "tpot_seconds": spread(seconds), "machine": Machine(program="upright", version=None),
        "shape": Shape(prompt_tokens=prompt, output_tokens=64, concurrency=1, requests=4),
    }  # fmt: skip
    return Cell.model_validate({**known, **changed})


def machine():
    known = Figure(value=40e9, basis="measured", source="a triad")
    return box(memory_gib=64).model_copy(update={"memory_bandwidth_measured_bytes_per_second": known})


def test_main_memory_is_calibrated_by_what_was_measured():
    artifact = model(8)
    found = plan(machine(), artifact)[0]
    assert found.speed is not None
    cells = [cell(prompt, 0.5 + prompt / 1e5) for prompt in (128, 1024, 4096, 8192)]
    start, samples, left = cell_samples([*cells, cell(64, 0.1, marks=("too short",))], found, artifact, machine())
    assert left == ("r1 cell 5: too short",)
    made = calibrate(samples, start)
    assert made.fitted == ("host_layer_us", "host_measured_efficiency")
    assert made.held_out.median < made.before.median
    assert [predict(each, made.constants) for each in samples] == pytest.approx(
        [each.tokens_per_second for each in samples], rel=0.2
    )


def test_without_a_bandwidth_there_is_nothing_to_be_a_share_of():
    found = plan(box(memory_gib=64), model(8))[0]
    with pytest.raises(UprightError, match=r"bandwidths of .* are not known"):
        cell_samples([], found, model(8), box(memory_gib=64))


def test_a_constant_that_costs_nothing_is_not_counted_beside_the_others():
    """It kept the value that it had before the fit, and every step was planned too slow by it."""
    artifact = model(8)
    found = plan(machine(), artifact)[0]
    start, samples, _ = cell_samples([cell(256, 0.5), cell(2048, 0.5), cell(8192, 0.5)], found, artifact, machine())
    exact = start.constants.model_copy(update={"host_layer_us": 0.0, "host_measured_efficiency": 0.5})
    exact_samples = [replace(sample, tokens_per_second=predict(sample, exact)) for sample in samples]
    fitted = calibrate(exact_samples, start).constants
    assert [predict(sample, fitted) for sample in samples] == pytest.approx(
        [sample.tokens_per_second for sample in exact_samples], rel=0.001
    )
    assert fitted.host_layer_us == pytest.approx(0.0, abs=1.0)


def test_repeats_of_a_load_are_one_measurement_and_the_median_gap_is_a_step():
    found, artifact = plan(machine(), model(8))[0], model(8)
    gaps = [spread(seconds) for seconds in (0.5, 0.9, 0.6)]
    gaps = [gap.model_copy(update={"count": 4 * 63}) for gap in gaps]
    cells = [cell(256, 2.0, repeat=number, itl_seconds=gap) for number, gap in enumerate(gaps, 1)]
    _, (sample,), _ = cell_samples(cells, found, artifact, machine())
    assert sample.tokens_per_second == pytest.approx(1 / 0.6)
    several_a_piece = [each.model_copy(update={"itl_seconds": spread(0.5)}) for each in cells]
    _, (sample,), _ = cell_samples(several_a_piece, found, artifact, machine())
    assert sample.tokens_per_second == pytest.approx(1 / 2.0)


def _own(engine_version="b11669"):
    artifact = model(8)
    found = plan(machine(), artifact, Goal(engine="llama.cpp", engine_version=engine_version, context_tokens=8192))[0]
    cells = [cell(prompt, 0.5 + prompt / 1e5) for prompt in (128, 1024, 4096, 8192)]
    benchmarked = BenchmarkedDeployment("mine", cells, found, artifact, machine())
    return calibrate_runs(runs_of_deployments([benchmarked]), ["mine"])[1]


def test_a_fit_on_a_processor_is_for_machines_without_a_gpu():
    row = _own()
    assert row.capability == "==none"
    assert versions.in_range("none", row.capability)
    assert not versions.in_range("12.0", row.capability)
    assert row.home.gpus == ("none",)


def test_another_version_of_the_engine_is_a_step_away():
    row = _own()
    load = SpeedQuery(row.home.shapes[0], row.home.formats[0], None, "b11669", 1, 4096)
    assert steps_away(row, load) == ()
    assert steps_away(row, load._replace(version="b12000")) == ("version",)
    assert steps_away(row, load._replace(users=9, gpu="rtx-4090")) == ("gpu", "users")

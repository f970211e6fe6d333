"""A machine whose GPU shares its memory: how much the owner says there is holds for the GPU too."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.base.units import GIB
from upright.facts import catalog
from upright.facts.catalog.unified_memory import unified_memory_gpus

UNIFIED = [row for row in catalog.gpus() if row.unified_memory]
OWN = [row for row in catalog.gpus() if not row.unified_memory]


def gpu_gib(box: str, memory_gib: float) -> float | None:
    gpus = unified_memory_gpus(catalog.box_record(box), memory_gib)
    return gpus[0].memory_bytes.value / GIB if gpus else None


@pytest.mark.parametrize("row", UNIFIED, ids=lambda row: row.id)
def test_half_of_the_memory_is_half_for_the_gpu(row):
    sold, whole = row.memory_gb.value, catalog.box_record(row.id).gpus[0].memory_bytes.value / GIB
    assert gpu_gib(row.id, sold) == pytest.approx(whole)
    if row.vendor != "apple":
        assert gpu_gib(row.id, sold / 2) == pytest.approx(whole / 2)


@pytest.mark.parametrize(
    ("mac", "memory_gib", "megabytes"),
    [
        pytest.param("m4", 8, 5726.6, id="8 GB: two thirds"),
        pytest.param("m4-max", 36, 30150.67, id="36 GB"),
        pytest.param("m4-pro", 48, 40200.90, id="48 GB, which no row has"),
        pytest.param("m4-max", 64, 55662.79, id="64 GB"),
        pytest.param("m5-max", 128, 115448.73, id="128 GB"),
        pytest.param("m3-ultra", 256, 223338.30, id="256 GB"),
        pytest.param("m3-ultra", 512, 498216.21, id="512 GB"),
    ],
)
def test_macos_gives_the_gpu_what_macs_of_this_size_print(mac, memory_gib, megabytes):
    """recommendedMaxWorkingSetSize, in millions of bytes as llama.cpp prints it."""
    assert gpu_gib(mac, memory_gib) == pytest.approx(megabytes * 1e6 / GIB, rel=2e-3)


@pytest.mark.parametrize("row", OWN, ids=lambda row: row.id)
def test_memory_of_its_own_stays(row):
    assert gpu_gib(f"1x-{row.id}", 64) is None


@pytest.mark.parametrize("row", UNIFIED, ids=lambda row: row.id)
def test_no_machine_is_larger_than_it_is_sold(row):
    whole = catalog.box_record(row.id).gpus[0].memory_bytes.value / GIB
    assert gpu_gib(row.id, 4 * row.memory_gb.value) == pytest.approx(whole)


def test_a_box_beside_another_keeps_the_memory_that_it_says():
    """What is said of system RAM is for the box that does not say: a DGX Spark has no 512 GB."""
    words = ["compare", "gpt-oss-120b", "--box", "dgx-spark", "--box", "2x-rtx-5090"]
    plain, told = (
        json.loads(CliRunner().invoke(cli, [*words, *ram, "--json"]).stdout)["columns"]
        for ram in ((), ("--ram", "512GB"))
    )
    assert told[0] == plain[0]
    assert told[1] != plain[1], "the other has it"


def test_several_boxes_in_one_and_none():
    assert gpu_gib("2x-gb10", 128) is None
    assert gpu_gib("cpu", 64) is None


def test_what_was_looked_at_is_no_more_than_was_seen():
    seen = catalog.box_record("gb10").model_copy(update={"basis": "probed"})
    known = seen.gpus[0].memory_bytes.value
    assert unified_memory_gpus(seen, 512)[0].memory_bytes.value == known
    assert unified_memory_gpus(seen, 64)[0].memory_bytes.value == 64 * GIB


@pytest.mark.parametrize(("ram", "fits"), [((), True), (("--ram", "128GB"), True), (("--ram", "64GB"), False)])
@pytest.mark.parametrize("box", ["m4-max", "strix-halo", "dgx-spark"])
def test_a_plan_of_the_smaller_machine_does_not_fit(box: str, ram: tuple[str, ...], fits: bool):
    """gpt-oss-120b has 63 GB of weights."""
    done = CliRunner().invoke(cli, ["plan", "gpt-oss-120b", "--box", box, *ram, "--context", "8192", "--json"])
    plans = json.loads(done.stdout)["plans"]
    assert any(plan["fits"] for plan in plans) is fits

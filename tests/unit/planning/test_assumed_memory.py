"""What is assumed of system RAM: by the processor, by its amount, and a band that says so."""

from __future__ import annotations

import pytest

from upright.base.units import GB, GIB, format_memory
from upright.facts import catalog
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal
from upright.planning.choosing import plan
from upright.planning.choosing.artifacts import artifact_choice
from upright.planning.speed.assumed_bandwidth import RAM_ASSUMED, assumed_bandwidth, processor_row, theoretical


def _unread(text: str):
    raise AssertionError(text)


def _box(gib: int, *, processor: str | None = None, sockets: int | None = None, gb_s: float | None = None) -> Box:
    box = catalog.box_record("2x-rtx-5090")
    memory = Figure(value=gib * GIB, basis="assumed", source="--ram")
    update = {"memory_bytes": memory, "memory_available_bytes": memory}
    if processor:
        update["cpu"] = box.cpu.model_copy(update={"name": processor, "sockets": sockets})
    if gb_s:
        update["memory_bandwidth_bytes_per_second"] = Figure(
            value=gb_s * GB, basis="assumed", source="--host-bandwidth"
        )
    return box.model_copy(update=update)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("AMD EPYC 9554 64-Core Processor", "epyc-9004"),
        ("AMD EPYC 9175F 16-Core Processor", "epyc-9005"),
        ("epyc 7543", "epyc-7003"),
        ("AMD Ryzen Threadripper PRO 7965WX 24-Cores", "threadripper-pro-7000"),
        ("AMD Ryzen 9 9950X 16-Core Processor", "ryzen-9000"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "core-13th"),
        ("Intel(R) Xeon(R) 6767P", "xeon-6-6700p"),
    ],
)
def test_a_processors_name_says_how_fast_its_memory_is(name: str, row: str) -> None:
    platform = processor_row(name)
    assert platform is not None
    assert platform.id == row


def test_no_row_is_of_another_processor() -> None:
    assert processor_row("unknown") is None
    assert processor_row("Intel(R) Xeon(R) Processor @ 2.90GHz") is None


def test_without_a_name_the_amount_decides_and_sockets_count_where_they_are_known() -> None:
    assert (assumed_bandwidth(_box(128)).value or 0) == pytest.approx(89.6e9)
    assert (assumed_bandwidth(_box(512)).value or 0) == pytest.approx(307.2e9)
    assert (assumed_bandwidth(_box(768, processor="AMD EPYC 9554", sockets=2)).value or 0) == pytest.approx(921.6e9)


def test_an_assumed_bandwidth_is_told_and_widens_the_band() -> None:
    model = artifact_choice("gpt-oss-120b", _unread)
    goal = Goal(engine="llama.cpp")
    assumed = plan(_box(512), model.model, goal, choose_from=model.choose_from)[0]
    stated = plan(_box(512, gb_s=307.2), model.model, goal, choose_from=model.choose_from)[0]
    assert assumed.speed is not None
    assert stated.speed is not None
    assert assumed.speed.decode.best == stated.speed.decode.best
    assert assumed.speed.decode.low < stated.speed.decode.low
    assert assumed.speed.decode.high > stated.speed.decode.high
    assert [note.code for note in assumed.notes].count(RAM_ASSUMED) == 1
    assert RAM_ASSUMED not in [note.code for note in stated.notes]


def test_ram_that_nobody_stated_is_told_with_what_is_used_of_it() -> None:
    model = artifact_choice("gpt-oss-20b", _unread)
    goal = Goal(engine="llama.cpp")
    best = plan(catalog.box_record("1x-rtx-4060"), model.model, goal, choose_from=model.choose_from)[0]
    used = sum(line.bytes for line in best.ledger if line.device == "host")
    [told] = [note.message for note in best.notes if note.code == RAM_ASSUMED]
    assert used
    assert f"not specified: {format_memory(used)} of it are used" in told


@pytest.mark.parametrize(
    ("stated", "of_channels"),
    [(307.2, True), (460.8, True), (460, True), (89.6, True), (90, True), (273.4, False), (411, False)],
)
def test_what_no_number_of_channels_has_was_measured(stated: float, of_channels: bool) -> None:
    assert theoretical(stated) is of_channels


def test_what_is_all_on_the_gpus_assumes_nothing() -> None:
    model = artifact_choice("gpt-oss-20b", _unread)
    best = plan(_box(512), model.model, choose_from=model.choose_from)[0]
    assert best.fits
    assert RAM_ASSUMED not in [note.code for note in best.notes]

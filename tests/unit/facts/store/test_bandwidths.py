"""How fast system RAM was once read is known when the machine is looked at again; a file that lies is not believed."""

from __future__ import annotations

import json

import pytest

from upright.base.home import home
from upright.base.host import LocalHost
from upright.facts.records.base import Figure, unknown
from upright.facts.store.bandwidths import keep_bandwidth, kept_bandwidth
from upright.planning.probing import probe


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))


def figure(value: float) -> Figure:
    return Figure(value=value, basis="measured", source="memchr")


def test_a_later_look_at_the_same_hardware_has_what_was_measured():
    here = probe(LocalHost())
    assert here.memory_bandwidth_measured_bytes_per_second.value is None
    keep_bandwidth(here.identity, figure(20e9))
    again = probe(LocalHost()).memory_bandwidth_measured_bytes_per_second
    assert again.value == 20e9
    assert again.basis == "measured"
    assert again.source.startswith("memchr, 20")


def test_the_fastest_reading_counts():
    """Others who were at work make one slower."""
    for measured in (20e9, 30e9, 9e9):
        keep_bandwidth("this", figure(measured))
    assert kept_bandwidth("this").value == 30e9


def test_other_hardware_has_nothing():
    keep_bandwidth("this", figure(20e9))
    assert kept_bandwidth("that") is None


def test_what_could_not_be_measured_is_not_kept():
    keep_bandwidth("this", figure(20e9))
    keep_bandwidth("this", unknown("too little memory"))
    assert kept_bandwidth("this").value == 20e9


@pytest.mark.parametrize("value", [-1.0, 0, True, "9e9", None, 1e300, float("nan"), [20e9], {}])
def test_a_figure_that_no_machine_has_is_not_believed(value):
    (home() / "bandwidths.json").write_text(json.dumps({"this": {"bytes_per_second": value, "source": "", "at": ""}}))
    assert kept_bandwidth("this") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"this": 3}', b'{"this": {}}', b"[" * 100_000])
def test_a_file_that_is_none_of_ours_is_as_if_it_were_not_there(content):
    (home() / "bandwidths.json").write_bytes(content)
    assert kept_bandwidth("this") is None
    keep_bandwidth("this", figure(20e9))
    assert kept_bandwidth("this").value == 20e9


def test_a_hundred_machines_are_kept_the_oldest_goes_first():
    for number in range(101):
        keep_bandwidth(f"box {number}", figure(20e9 + number))
    assert kept_bandwidth("box 0") is None
    assert kept_bandwidth("box 1").value == 20e9 + 1
    assert kept_bandwidth("box 100").value == 20e9 + 100

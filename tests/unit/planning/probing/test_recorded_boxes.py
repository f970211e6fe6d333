"""The three boxes that people described in public, from synthetic recordings in the tools' real formats."""

import json
import re
from pathlib import Path

import pytest

from upright.base.errors import HostError, UsageError
from upright.base.host import RecordedHost
from upright.planning.probing import box_of, probe

BOXES = Path(__file__).parents[3] / "recordings" / "boxes"
SERVER, MAX_Q, HGX = "synthetic-8x-rtx-pro-6000-server", "synthetic-2x-rtx-pro-6000-max-q", "synthetic-hgx-b200"


def _box(name):
    return probe(RecordedHost(BOXES / name))


@pytest.mark.parametrize("name", [SERVER, MAX_Q, HGX])
def test_each_is_marked_synthetic_and_says_what_is_invented(name):
    host = RecordedHost(BOXES / name)
    assert host.synthetic
    assert "invented" in host.note


def test_eight_server_cards_in_pairs_on_two_nodes():
    box = _box(SERVER)
    assert len(box.gpus) == 8
    assert {gpu.compute_capability for gpu in box.gpus} == {"12.0"}
    assert {gpu.name for gpu in box.gpus} == {"NVIDIA RTX PRO 6000 Blackwell Server Edition"}
    assert [(link.a, link.b) for link in box.links if link.path == "PIX"] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert len(box.links) == 28
    assert sum(link.nvlinks for link in box.links) == 0
    assert len(box.numa) == 2
    assert [gpu.numa_node for gpu in box.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert box.cpu.sockets == 2


def test_a_gpus_figures_and_where_they_come_from():
    gpu = _box(SERVER).gpus[3]
    assert gpu.memory_bytes.value == 97887 * 1024**2
    assert gpu.memory_bytes.basis == "probed"
    assert gpu.bus_id == "0000:42:00.0"
    assert gpu.bar1_bytes.value == 128 * 1024**3
    assert (gpu.power_limit_watts.value, gpu.clock_memory_max_mhz.value) == (600, 12481)
    assert (gpu.pcie.generation.value, gpu.pcie.generation_max.value, gpu.pcie.width_lanes.value) == (1, 5, 16)
    assert gpu.row == "rtx-pro-6000-server"
    assert gpu.memory_bandwidth_bytes_per_second.value == pytest.approx(1597e9)
    assert gpu.memory_bandwidth_bytes_per_second.basis == "catalog"
    assert gpu.shared_memory_block_bytes.value == 101376
    assert (gpu.display, gpu.mig) == (False, False)


def test_a_fresh_installation_has_settings_that_need_attention():
    box = _box(SERVER)
    states = {setting.name: setting for setting in box.settings}
    attention = {name for name, setting in states.items() if setting.verdict == "attention"}
    assert attention == {"iommu", "acs", "hmm", "persistence_mode", "governor", "numa_balancing"}
    assert states["acs"].state == "2 bridges redirect: 10:01.0, 10:02.0"
    assert all(states[name].change for name in attention)
    assert states["peer_access"].verdict == "good"


def test_two_max_q_on_an_epyc_with_twelve_channels():
    box = _box(MAX_Q)
    assert [gpu.name for gpu in box.gpus] == ["NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"] * 2
    assert box.cpu.name == "AMD EPYC 9175F 16-Core Processor"
    assert (box.cpu.sockets, box.cpu.cores, box.cpu.threads) == (1, 16, 32)
    assert "avx512_bf16" in box.cpu.flags
    modules = box.memory_modules
    assert (modules.kind, modules.channels.value, modules.speed_mega_transfers_per_second.value) == ("DDR5", 12, 6400)
    bandwidth = box.memory_bandwidth_bytes_per_second
    assert bandwidth.value == 614_400_000_000
    assert (bandwidth.basis, bandwidth.source) == ("derived", "12 channels x 6400 MT/s x 8 B")
    assert [(runtime.name, runtime.gpus) for runtime in box.containers] == [("podman", "cdi")]


def test_eight_b200_with_nvlink():
    box = _box(HGX)
    assert [gpu.name for gpu in box.gpus] == ["NVIDIA B200"] * 8
    assert {gpu.compute_capability for gpu in box.gpus} == {"10.0"}
    assert {link.path for link in box.links} == {"NV18"}
    assert {link.nvlinks for link in box.links} == {18}
    assert "amx_tile" in box.cpu.flags
    assert box.memory_modules.count.value == 32
    assert box.memory_modules.channels.value == 16
    assert box.software.driver_open is True


def test_a_recording_is_a_box_for_every_verb(upright):
    assert box_of(str(BOXES / HGX)) == _box(HGX)
    done = upright("probe", BOXES / SERVER)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert len(done.stdout.splitlines()) <= 40
    assert "PIX 0-1 2-3 4-5 6-7" in done.stdout
    assert "a synthetic recording" in done.stderr
    assert done.stderr.strip().splitlines()[-1] == f"next: upright plan MODEL --box {BOXES / SERVER}"


def test_json_is_the_record_and_nothing_else(upright):
    done = upright("probe", BOXES / MAX_Q, "--json")
    record = json.loads(done.stdout)
    assert record["record"] == "box"
    assert len(record["gpus"]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "nonsense is no box"),
        ("8x-rtx-pro-6000-servr", "8x-rtx-pro-6000-servr is no box"),
        ("./missing.json", "./missing.json is not there"),
        ("ssh:", "not a machine that ssh can reach"),
        ("ssh:-oProxyCommand=touch", "not a machine that ssh can reach"),
        ("ssh:two words", "not a machine that ssh can reach"),
    ],
)
def test_wrong_boxes_are_named(text, message):
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        box_of(text)
    assert error.value.hint


def test_near_names_are_offered():
    with pytest.raises(UsageError) as error:
        box_of("8x-rtx-pro-6000-servr")
    assert "near: 8x-rtx-pro-6000-server" in (error.value.hint or "")


def test_a_description_cannot_be_measured_or_recorded(upright):
    done = upright("probe", "dgx-spark", "--measure")
    assert done.returncode == 2
    assert "error: dgx-spark is a description" in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_catalogue_name_is_a_box():
    box = box_of("8x-rtx-pro-6000-server-dual-socket")
    assert box.basis == "catalog"
    assert len(box.gpus) == 8


def test_a_changed_recording_is_an_error_for_people(tmp_path):
    (tmp_path / "recording.json").write_text("{")
    with pytest.raises(HostError, match="is not JSON"):
        box_of(str(tmp_path))
    (tmp_path / "recording.json").write_text(
        '{"format": 1, "commands": [{"argv": ["lscpu"], "out": "../../etc/passwd"}]}'
    )
    with pytest.raises(HostError, match="names a file outside the recording"):
        box_of(str(tmp_path))
    (tmp_path / "recording.json").write_text('{"format": 2, "commands": []}')
    with pytest.raises(HostError, match="not a recording of format 1"):
        box_of(str(tmp_path))


def test_an_empty_recording_is_a_box_of_unknowns(tmp_path):
    (tmp_path / "recording.json").write_text('{"format": 1, "name": "silent", "commands": []}')
    box = box_of(str(tmp_path))
    assert (box.name, box.gpus, box.engines, box.memory_bytes.value) == ("silent", (), (), None)
    assert {setting.verdict for setting in box.settings} <= {"unknown", "irrelevant"}

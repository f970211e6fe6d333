"""Every setting in every state that a machine can show."""

import pytest

from upright.base.host import Result
from upright.facts import catalog
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Gpu, Link, NumaNode, PcieLink
from upright.planning.probing.host_settings import READERS, ProbedHost, read_settings

GIB = 1024**3
CLEAR = "00:01.1 PCI bridge\n\tACSCtl: SrcValid- ReqRedir- CmpltRedir-\n"
REDIRECTING = "00:01.1 PCI bridge\n\tACSCtl: SrcValid+ ReqRedir+ CmpltRedir+\n"
DENIED = "00:01.1 PCI bridge\n\tCapabilities: <access denied>\n"


def _figure(value):
    return unknown("not said") if value is None else Figure(value=value, basis="probed", source="test")


def _gpu(index=0, bar1=128 * GIB, width=16):
    return Gpu(
        index=index,
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        memory_bytes=_figure(96 * GIB),
        memory_free_bytes=_figure(96 * GIB),
        bar1_bytes=_figure(bar1),
        pcie=PcieLink(width_lanes=_figure(width), width_max_lanes=_figure(16)),
    )


def _setting(name, gpus=(), links=(), nodes=2, **texts):
    answers = {key.replace("_", "-"): Result(0, text, "") for key, text in texts.items()}
    numa = [NumaNode(index=n, cpus="0-1", memory_bytes=_figure(GIB)) for n in range(nodes)]
    gpus = gpus or (_gpu(0), _gpu(1))
    found = {setting.name: setting for setting in read_settings(ProbedHost(answers, gpus, links, numa))}
    return found[name]


def test_rows_and_readers_are_the_same_set():
    assert set(READERS) == {row.id for row in catalog.settings()}


@pytest.mark.parametrize("row", catalog.settings(), ids=lambda row: row.id)
def test_each_row_fits_a_line_and_has_a_source(row):
    assert len(row.change) <= 72
    assert row.sources


@pytest.mark.parametrize(
    ("name", "texts", "state", "verdict"),
    [
        ("iommu", {"iommu_groups": ""}, "off", "good"),
        ("iommu", {"iommu_groups": "  12 identity\n", "kernel_words": "iommu=pt\n"}, "pass-through (iommu=pt)", "good"),
        ("iommu", {"iommu_groups": "  12 DMA-FQ\n   3 identity\n"}, "translating: DMA-FQ, identity", "attention"),
        ("iommu", {}, "/sys/kernel/iommu_groups cannot be read", "unknown"),
        ("acs", {"bridges": CLEAR}, "clear on 1 bridges", "good"),
        ("acs", {"bridges": REDIRECTING}, "1 bridges redirect: 00:01.1", "attention"),
        ("acs", {"bridges": DENIED}, "lspci shows it to root only: sudo upright probe", "unknown"),
        ("acs", {}, "lspci is not there or shows nothing", "unknown"),
        ("aspm", {"aspm": "default [performance] powersave\n"}, "policy performance", "good"),
        ("aspm", {"aspm": "default performance [powersupersave]\n"}, "policy powersupersave", "attention"),
        ("aspm", {"aspm": "[default] performance\n"}, "the firmware decides (policy default)", "unknown"),
        ("aspm", {"kernel_words": "pcie_aspm=off\n"}, "off (pcie_aspm=off)", "good"),
        ("hmm", {"hmm": "Y\n"}, "off (uvm_disable_hmm=Y)", "good"),
        ("hmm", {"hmm": "N\n"}, "not disabled (uvm_disable_hmm=N)", "attention"),
        ("hmm", {"nvidia_long": "    Addressing Mode        : HMM\n"}, "on (Addressing Mode: HMM)", "attention"),
        ("hmm", {"nvidia_long": "    Addressing Mode        : None\n", "hmm": "N\n"}, "off", "good"),
        ("hmm", {}, "nvidia_uvm is not loaded, or does not say", "unknown"),
        ("governor", {"governor": "  64 performance\n"}, "performance", "good"),
        ("governor", {"governor": "  32 performance\n  32 powersave\n"}, "performance, powersave", "attention"),
        ("governor", {}, "the kernel shows none (usual in virtual machines)", "unknown"),
        ("numa_balancing", {"numa_balancing": "0\n"}, "off", "good"),
        ("numa_balancing", {"numa_balancing": "1\n"}, "on (1)", "attention"),
        ("shared_memory", {"shared_memory": "F\nshm 65536 0 65536 0% /dev/shm\n"}, "64.0 MiB", "attention"),
        ("shared_memory", {"shared_memory": "F\ntmpfs 33554432 0 33554432 0% /dev/shm\n"}, "32.0 GiB", "good"),
        ("shared_memory", {}, "no /dev/shm", "unknown"),
        ("persistence_mode", {"nvidia_query": "index, name, persistence_mode\n0, x, Enabled\n"}, "on", "good"),
        ("persistence_mode", {"nvidia_query": "index, name, persistence_mode\n0, x, Disabled\n"}, "off", "attention"),
        ("persistence_mode", {}, "the driver does not say", "unknown"),
    ],
)  # fmt: skip
def test_state_and_verdict(name, texts, state, verdict):
    setting = _setting(name, **texts)
    assert (setting.state, setting.verdict) == (state, verdict)
    assert (setting.change is not None) == (verdict == "attention")


def test_bar1():
    assert _setting("resizable_bar").verdict == "good"
    small = _setting("resizable_bar", gpus=(_gpu(0), _gpu(1, bar1=256 * 1024**2)))
    assert (small.state, small.verdict) == ("BAR1 is 256 MiB on 1 of 2 GPUs", "attention")
    assert _setting("resizable_bar", gpus=(_gpu(bar1=None),)).verdict == "unknown"
    assert _setting("resizable_bar", gpus=(_gpu(0), _gpu(1, bar1=None))).verdict == "unknown", "one of two is not told"


def test_missing_lanes():
    assert _setting("pcie_width").state == "x16"
    narrow = _setting("pcie_width", gpus=(_gpu(0), _gpu(1, width=8)))
    assert (narrow.state, narrow.verdict) == ("GPU 1: x8 of x16", "attention")


@pytest.mark.parametrize(
    ("peers", "state", "verdict"),
    [
        (["OK", "OK", "OK"], "between all pairs", "good"),
        (["OK", "CNS", "CNS"], "missing between 2 of 3 pairs (CNS)", "attention"),
        (["OK", None, "OK"], "nvidia-smi topo -p2p does not say", "unknown"),
        ([], "nvidia-smi topo -p2p does not say", "unknown"),
    ],
)
def test_peer_access(peers, state, verdict):
    links = [
        Link(a=a, b=b, path="PIX", peer_access=p) for (a, b), p in zip([(0, 1), (0, 2), (1, 2)], peers, strict=False)
    ]
    setting = _setting("peer_access", links=links)
    assert (setting.state, setting.verdict) == (state, verdict)


@pytest.mark.parametrize(
    ("paths", "state", "verdict"),
    [
        (["NV18", "NV18", "NV18"], "18 links each way", "good"),
        (["NV18", "NODE", "NODE"], "GPU 2 without, 2 with", "attention"),
        (["NV4", "SYS", "SYS"], "GPU 2 without, 2 with", "attention"),
        (["PIX", "NODE", "SYS"], "none", "irrelevant"),
    ],
)
def test_a_gpu_that_lost_its_nvlink(paths, state, verdict):
    links = [Link(a=a, b=b, path=path) for (a, b), path in zip([(0, 1), (0, 2), (1, 2)], paths, strict=True)]
    setting = _setting("nvlink", gpus=(_gpu(0), _gpu(1), _gpu(2)), links=links)
    assert (setting.state, setting.verdict) == (state, verdict)


@pytest.mark.parametrize(
    ("words", "state", "verdict"),
    [
        (("Completed", "Success"), "up", "good"),
        (("In Progress", "N/A"), "In Progress, N/A", "attention"),
        (("N/A", "N/A"), "no NVSwitch", "irrelevant"),
    ],
)
def test_the_fabric(words, state, verdict):
    text = f"    Fabric\n        State                             : {words[0]}\n        Status         : {words[1]}\n"
    setting = _setting("fabric", nvidia_long=text)
    assert (setting.state, setting.verdict) == (state, verdict)


def test_one_gpu_has_no_peers_and_one_node_no_balancing():
    assert _setting("peer_access", gpus=(_gpu(),)).verdict == "irrelevant"
    assert _setting("iommu", gpus=(_gpu(),), iommu_groups="  1 DMA\n").verdict == "irrelevant"
    assert _setting("numa_balancing", nodes=1, numa_balancing="1").verdict == "irrelevant"

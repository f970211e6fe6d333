"""sysfs, the kernel's command line, lspci -> the settings that break such boxes, each with its state.

One reader per row of the catalogue's settings: the row says what a setting means and how to change it, the reader only
what it is now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upright.base.units import GIB, KIB, format_memory
from upright.facts import catalog
from upright.facts.records.box import Gpu, HostSetting, Link, NumaNode, Verdict
from upright.planning.probing import nvidia
from upright.planning.probing.questions import NOT_ASKED, Answers, output_of, script

_KERNEL_WORDS = "iommu|amd_iommu|intel_iommu|pcie_aspm|pcie_port_pm|pci|numa_balancing|mem_encrypt"
QUESTIONS = {
    # Only the words that matter: a command line may hold addresses and worse.
    "kernel-words": script(
        "kernel-words", f"tr ' ' '\\n' </proc/cmdline | grep -E '^({_KERNEL_WORDS})=' | sort; exit 0"
    ),
    "iommu-groups": script("iommu-groups", "cat /sys/kernel/iommu_groups/*/type 2>/dev/null | sort | uniq -c; exit 0"),
    "bridges": script("bridges", "lspci -vvv 2>/dev/null | grep -E '^[0-9a-f]|ACSCtl|access denied'"),
    "aspm": ("cat", "/sys/module/pcie_aspm/parameters/policy"),
    "governor": script("governor", "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort | uniq -c"),
    "numa-balancing": ("cat", "/proc/sys/kernel/numa_balancing"),
    "hmm": ("cat", "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
    "shared-memory": ("df", "-Pk", "/dev/shm"),  # noqa: S108 - it is looked at, not written to
}

ENOUGH_SHARED_MEMORY_BYTES = GIB
# A window a little smaller than the memory is whole: the driver keeps some memory for itself.
_WHOLE_BAR = 0.9


@dataclass(frozen=True)
class ProbedHost:
    """What the readers may look at."""

    answers: Answers
    gpus: Sequence[Gpu]
    links: Sequence[Link]
    numa: Sequence[NumaNode]


State = tuple[str, Verdict]


def read_settings(seen: ProbedHost) -> tuple[HostSetting, ...]:
    counts = {"any": True, "gpu": len(seen.gpus) >= 1, "gpus": len(seen.gpus) >= 2, "numa": len(seen.numa) >= 2}
    settings = []
    for row in catalog.settings():
        reader = READERS.get(row.id, _no_reader)
        state, verdict = reader(seen)
        if not counts[row.matters]:
            verdict = "irrelevant"
        settings.append(
            HostSetting(
                name=row.id,
                state=state,
                verdict=verdict,
                meaning=row.trouble if verdict == "attention" else row.title,
                change=row.change if verdict == "attention" else None,
                source=row.sources[0],
            )
        )
    return tuple(settings)


def _nvidia_driver(seen: ProbedHost) -> State:
    devices = nvidia.devices_on_the_bus(seen.answers)
    there = [address for address, vendor in devices if vendor == nvidia.NVIDIA]
    if len(there) > len(seen.gpus):
        asked = seen.answers.get("nvidia-query", NOT_ASKED)
        reason = (asked.out + asked.err).strip().splitlines()
        why = f": {reason[0][:100]}" if reason and not asked.ok else ""
        return f"{len(there)} on the bus, {len(seen.gpus)} served{why}", "attention"
    if not seen.gpus:
        others = sorted({vendor for _, vendor in devices} - {nvidia.NVIDIA, "ASPEED"})
        return "no NVIDIA GPU on the bus" + (f" (but {', '.join(others)})" if others else ""), "irrelevant"
    return f"{len(seen.gpus)} served", "good"


def _peer_access(seen: ProbedHost) -> State:
    states = [link.peer_access for link in seen.links]
    if not states or None in states:
        return "nvidia-smi topo -p2p does not say", "unknown"
    bad = sorted({state for state in states if state and state != "OK"})
    if not bad:
        return "between all pairs", "good"
    missing = sum(state != "OK" for state in states)
    return f"missing between {missing} of {len(states)} pairs ({', '.join(bad)})", "attention"


def _nvlink(seen: ProbedHost) -> State:
    linked = {index for link in seen.links if link.nvlinks for index in (link.a, link.b)}
    if not linked:
        return "none", "irrelevant"
    without = sorted({gpu.index for gpu in seen.gpus} - linked)
    if without:
        return f"GPU {', '.join(map(str, without))} without, {len(linked)} with", "attention"
    return f"{max(link.nvlinks for link in seen.links)} links each way", "good"


def _fabric(seen: ProbedHost) -> State:
    states = nvidia.fabric_states(seen.answers)
    if not states:
        return "no NVSwitch", "irrelevant"
    bad = sorted(state for state in states if state != "Completed, Success")
    return (f"{'; '.join(bad)}", "attention") if bad else ("up", "good")


def _iommu(seen: ProbedHost) -> State:
    if "iommu-groups" not in seen.answers or not seen.answers["iommu-groups"].ok:
        return "/sys/kernel/iommu_groups cannot be read", "unknown"
    types = re.findall(r"\d+ (\S+)", seen.answers["iommu-groups"].out)
    kernel_arguments = " ".join((output_of(seen.answers, "kernel-words") or "").split())
    suffix = f" ({kernel_arguments})" if "iommu" in kernel_arguments else ""
    if not types:
        return f"off{suffix}", "good"
    if set(types) == {"identity"}:
        return f"pass-through{suffix}", "good"
    return f"translating: {', '.join(sorted(set(types)))}{suffix}", "attention"


def _acs(seen: ProbedHost) -> State:
    text = output_of(seen.answers, "bridges")
    if text is None:
        return "lspci is not there or shows nothing", "unknown"
    redirecting, device, controls = [], "", 0
    for line in text.splitlines():
        if re.match(r"[0-9a-f]", line):
            device = line.split()[0]
        elif "ACSCtl" in line:
            controls += 1
            if re.search(r"(ReqRedir|CmpltRedir)\+", line):
                redirecting.append(device)
    if redirecting:
        shown = ", ".join(redirecting[:3]) + (", ..." if len(redirecting) > 3 else "")
        return f"{len(redirecting)} bridges redirect: {shown}", "attention"
    if controls:
        return f"clear on {controls} bridges", "good"
    if "access denied" in text:
        return "lspci shows it to root only: sudo upright probe", "unknown"
    return "no bridge has ACS", "good"


def _resizable_bar(seen: ProbedHost) -> State:
    pairs = [(gpu.bar1_bytes.value, gpu.memory_bytes.value) for gpu in seen.gpus]
    known = [(window, total) for window, total in pairs if window is not None and total is not None]
    if not known or len(known) < len(pairs):
        return "the driver does not report BAR1", "unknown"
    small = [window for window, total in known if window < total * _WHOLE_BAR]
    if small:
        return f"BAR1 is {format_memory(min(small))} on {len(small)} of {len(known)} GPUs", "attention"
    return f"BAR1 is {format_memory(min(window for window, _ in known))}", "good"


def _pcie_width(seen: ProbedHost) -> State:
    narrow, widths = [], set()
    for gpu in seen.gpus:
        now, most = gpu.pcie.width_lanes.value, gpu.pcie.width_max_lanes.value
        if now is None or most is None:
            return "the driver does not report it", "unknown"
        widths.add(f"x{now}")
        if now < most:
            narrow.append(f"GPU {gpu.index}: x{now} of x{most}")
    return (", ".join(narrow), "attention") if narrow else (", ".join(sorted(widths)) or "no GPU", "good")


def _aspm(seen: ProbedHost) -> State:
    if "pcie_aspm=off" in (output_of(seen.answers, "kernel-words") or "").split():
        return "off (pcie_aspm=off)", "good"
    policy = re.search(r"\[(\w+)\]", output_of(seen.answers, "aspm") or "")
    if policy is None:
        return "the kernel shows no policy", "unknown"
    if policy[1] == "default":
        return "the firmware decides (policy default)", "unknown"
    return f"policy {policy[1]}", "good" if policy[1] == "performance" else "attention"


def _hmm(seen: ProbedHost) -> State:
    modes, parameter = nvidia.addressing_modes(seen.answers), (output_of(seen.answers, "hmm") or "").strip()
    if "HMM" in modes:
        return "on (Addressing Mode: HMM)", "attention"
    if modes or parameter == "Y":
        return "off" + (" (uvm_disable_hmm=Y)" if parameter == "Y" else ""), "good"
    if parameter == "N":
        return "not disabled (uvm_disable_hmm=N)", "attention"
    return "nvidia_uvm is not loaded, or does not say", "unknown"


def _persistence_mode(seen: ProbedHost) -> State:
    states = {row.get("persistence_mode", "") for row in nvidia.query_rows(seen.answers)}
    if states == {"Enabled"}:
        return "on", "good"
    return ("off", "attention") if "Disabled" in states else ("the driver does not say", "unknown")


def _shared_memory(seen: ProbedHost) -> State:
    columns = (output_of(seen.answers, "shared-memory") or "").strip().rpartition("\n")[2].split()
    if len(columns) < 6 or not columns[1].isdecimal():
        return "no /dev/shm", "unknown"
    size = int(columns[1]) * KIB
    return format_memory(size), "good" if size >= ENOUGH_SHARED_MEMORY_BYTES else "attention"


def _governor(seen: ProbedHost) -> State:
    governors = re.findall(r"\d+ (\S+)", output_of(seen.answers, "governor") or "")
    if not governors:
        return "the kernel shows none (usual in virtual machines)", "unknown"
    return ", ".join(governors), "good" if governors == ["performance"] else "attention"


def _numa_balancing(seen: ProbedHost) -> State:
    mode = (output_of(seen.answers, "numa-balancing") or "").strip()
    if not mode:
        return "the kernel has none", "good"
    return ("off", "good") if mode == "0" else (f"on ({mode})", "attention")


def _no_reader(seen: ProbedHost) -> State:
    """A row of the user's own catalogue: it explains, and nobody looks."""
    return "not probed", "unknown"


READERS: dict[str, Callable[[ProbedHost], State]] = {
    "nvidia_driver": _nvidia_driver,
    "peer_access": _peer_access,
    "nvlink": _nvlink,
    "fabric": _fabric,
    "iommu": _iommu,
    "acs": _acs,
    "resizable_bar": _resizable_bar,
    "pcie_width": _pcie_width,
    "aspm": _aspm,
    "hmm": _hmm,
    "persistence_mode": _persistence_mode,
    "shared_memory": _shared_memory,
    "governor": _governor,
    "numa_balancing": _numa_balancing,
}

"""nvidia-smi -> the GPUs.

Field names as `nvidia-smi --help-query-gpu` of driver 590 lists them; an unknown field fails the whole query, so what
only newer drivers know is read from the long form (`nvidia-smi -q`).
"""

from __future__ import annotations

import csv
import re

from upright.base.units import MIB
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Gpu, PcieLink
from upright.planning.probing.questions import Answers, output_of, rows, script

FIELDS = (
    "index",
    "name",
    "pci.bus_id",
    "driver_version",
    "compute_cap",
    "memory.total",
    "memory.free",
    "power.limit",
    "power.max_limit",
    "clocks.max.sm",
    "clocks.max.memory",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "display_active",
    "persistence_mode",
    "mig.mode.current",
)
QUESTIONS = {
    "nvidia-query": ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv"),
    "nvidia-long": ("nvidia-smi", "-q"),
    "display-devices": script(
        "display-devices",
        """
        for device in /sys/bus/pci/devices/*; do
            read -r class <"$device/class" || continue
            case $class in 0x03*) printf '%s\\t%s\\t%s\\n' \\
                "${device##*/}" "$(cat "$device/vendor")" "$(cat "$device/numa_node")" ;;
            esac
        done
        exit 0
        """,
    ),
}

NVIDIA = "NVIDIA"
_VENDORS = {"0x10de": NVIDIA, "0x1002": "AMD", "0x8086": "Intel", "0x1a03": "ASPEED"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_UNIT = re.compile(r"\s*\[.*\]$")


def read_gpus(answers: Answers) -> tuple[Gpu, ...]:
    bars, nodes = _bar1(output_of(answers, "nvidia-long") or ""), _numa(answers)
    return tuple(_gpu(row, bars, nodes) for row in query_rows(answers))


def query_rows(answers: Answers) -> list[dict[str, str]]:
    """The query's rows by field name; units stand in the header and again in every cell."""
    lines = [line for line in (output_of(answers, "nvidia-query") or "").splitlines() if line.count(",") >= 2]
    reader = csv.reader(lines, skipinitialspace=True)
    header = [_UNIT.sub("", name) for name in next(reader, [])]
    named = [dict(zip(header, row, strict=False)) for row in reader]
    return [row for row in named if row.get("index", "").isdecimal()]


def devices_on_the_bus(answers: Answers) -> list[tuple[str, str]]:
    """PCI address and vendor of every display device, whether or not a driver serves it."""
    return [(address, _VENDORS.get(vendor, vendor)) for address, vendor, _ in rows(answers, "display-devices", 3)]


def addressing_modes(answers: Answers) -> set[str]:
    """HMM, ATS or None, as far as the driver says."""
    return set(re.findall(r"^\s+Addressing Mode\s*: (\S+)$", output_of(answers, "nvidia-long") or "", re.MULTILINE))


def fabric_states(answers: Answers) -> set[str]:
    """`Completed, Success` of each GPU behind an NVSwitch; GPUs without a fabric say N/A and are left out."""
    fabrics = re.findall(
        r"^\s+Fabric\n\s+State\s*: (.*)\n\s+Status\s*: (.*)$", output_of(answers, "nvidia-long") or "", re.MULTILINE
    )
    return {f"{state}, {status}" for state, status in fabrics if state not in ("N/A", "Not Supported")}


def bus_address(bus_id: str) -> str:
    """`00000000:01:00.0` as nvidia-smi writes it -> `0000:01:00.0` as sysfs does."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _gpu(row: dict[str, str], bars: dict[str, str], nodes: dict[str, int]) -> Gpu:
    address = bus_address(row["pci.bus_id"]) if ":" in row.get("pci.bus_id", "") else None
    return Gpu(
        index=int(row["index"]),
        name=row.get("name", "unknown GPU"),
        compute_capability=row.get("compute_cap") if _NUMBER.match(row.get("compute_cap", "")) else None,
        memory_bytes=_figure(row, "memory.total", MIB),
        memory_free_bytes=_figure(row, "memory.free", MIB),
        bus_id=address,
        numa_node=nodes.get(address or ""),
        pcie=PcieLink(
            generation=_figure(row, "pcie.link.gen.current"),
            generation_max=_figure(row, "pcie.link.gen.max"),
            width_lanes=_figure(row, "pcie.link.width.current"),
            width_max_lanes=_figure(row, "pcie.link.width.max"),
        ),
        bar1_bytes=_number(bars.get(address or "", ""), "nvidia-smi -q BAR1 Memory Usage", MIB),
        power_limit_watts=_figure(row, "power.limit"),
        power_limit_max_watts=_figure(row, "power.max_limit"),
        clock_sm_max_mhz=_figure(row, "clocks.max.sm"),
        clock_memory_max_mhz=_figure(row, "clocks.max.memory"),
        display=_switch(row.get("display_active")),
        mig=_switch(row.get("mig.mode.current")),
    )


def _figure(row: dict[str, str], field: str, factor: int = 1) -> Figure:
    return _number(row.get(field, ""), f"nvidia-smi {field}", factor)


def _number(text: str, source: str, factor: int = 1) -> Figure:
    match = _NUMBER.match(text)
    if match is None:
        return unknown(f"{source} says {text or 'nothing'}")
    amount = float(match[0]) * factor
    return Figure(value=int(amount) if amount.is_integer() else amount, basis="probed", source=source)


def _switch(text: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get((text or "").lower())


def _bar1(text: str) -> dict[str, str]:
    """PCI address -> the total under `BAR1 Memory Usage`, in the driver's words."""
    totals: dict[str, str] = {}
    for block in re.split(r"^GPU (?=[0-9A-Fa-f]{8}:)", text, flags=re.MULTILINE)[1:]:
        match = re.search(r"BAR1 Memory Usage\s+Total\s*: (.*)", block)
        if match:
            totals[bus_address(block.split(maxsplit=1)[0])] = match[1]
    return totals


def _numa(answers: Answers) -> dict[str, int]:
    """A node of -1 means that the kernel does not know."""
    return {address: int(node) for address, _, node in rows(answers, "display-devices", 3) if node.isdecimal()}

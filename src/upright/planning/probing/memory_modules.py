"""dmidecode, or udev's copy of the same table -> the DIMMs and the bandwidth they could give.

Only root may read the table itself; udev keeps a copy that everybody may read, where systemd is recent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import MemoryModules
from upright.planning.probing.questions import Answers, output_of

QUESTIONS = {
    "dmidecode": ("dmidecode", "-t", "memory"),
    "udev-dmi": ("cat", "/run/udev/data/+dmi:id"),
}

_MEGA = 10**6
_CHANNEL = re.compile(r"(.*?channel[ _-]?(?:[A-Za-z](?![A-Za-z])|\d+))", re.IGNORECASE)
_LETTER = re.compile(r"(.*?DIMM[ _-]?[A-Z])[ _-]?\d*$", re.IGNORECASE)
_UDEV = re.compile(r"^E:\s?MEMORY_DEVICE_(\d+)_(\w+)=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class _Module:
    kind: str | None
    speed_mts: int | None
    width_bytes: int
    channel: str | None


def read_modules(answers: Answers) -> tuple[MemoryModules, Figure]:
    """The modules, and their theoretical bandwidth in bytes per second."""
    for source, text, parse in (
        ("dmidecode -t memory", output_of(answers, "dmidecode"), _from_dmidecode),
        ("udev's DMI table", output_of(answers, "udev-dmi"), _from_udev),
    ):
        modules = parse(text or "")
        if modules:
            return _summary(modules, source)
    why = unknown("no DIMM table: dmidecode needs root (sudo upright probe), and virtual machines often have none")
    return MemoryModules(count=why, channels=why, speed_mega_transfers_per_second=why), why


def _summary(modules: list[_Module], source: str) -> tuple[MemoryModules, Figure]:
    names = {module.channel for module in modules}
    if None in names:
        channels = Figure(value=len(modules), basis="assumed", source="one module per channel: the locators name none")
    else:
        channels = Figure(value=len(names), basis="derived", source=f"locators in {source}")
    speeds = [module.speed_mts for module in modules if module.speed_mts]
    speed = unknown(f"{source} gives no speed")
    bandwidth = speed
    if speeds:
        speed = Figure(value=min(speeds), basis="probed", source=f"{source}, the slowest module")
        width = min(module.width_bytes for module in modules)
        bandwidth = Figure(
            value=int(channels.value or 0) * min(speeds) * _MEGA * width,
            basis="derived" if channels.basis == "derived" else "assumed",
            source=f"{channels.value} channels x {min(speeds)} MT/s x {width} B",
        )
    kinds = {module.kind for module in modules if module.kind}
    count = Figure(value=len(modules), basis="probed", source=source)
    memory_modules = MemoryModules(
        kind=kinds.pop() if len(kinds) == 1 else None,
        count=count,
        channels=channels,
        speed_mega_transfers_per_second=speed,
    )
    return memory_modules, bandwidth


def _from_dmidecode(text: str) -> list[_Module]:
    blocks = re.split(r"^Handle 0x.*$", text, flags=re.MULTILINE)
    rows = [
        dict(re.findall(r"^\s+([^:\n]+): (.*)$", block, re.MULTILINE)) for block in blocks if "Memory Device" in block
    ]
    return [
        _module(
            row.get("Type"),
            row.get("Configured Memory Speed") or row.get("Configured Clock Speed") or row.get("Speed"),
            row.get("Data Width"),
            row.get("Bank Locator", ""),
            row.get("Locator", ""),
        )
        for row in rows
        if row.get("Size", "")[:1].isdecimal()
    ]


def _from_udev(text: str) -> list[_Module]:
    rows: dict[int, dict[str, str]] = {}
    for index, name, field_text in _UDEV.findall(text):
        rows.setdefault(int(index), {})[name] = field_text
    return [
        _module(
            row.get("TYPE"),
            row.get("CONFIGURED_SPEED_MTS") or row.get("SPEED_MTS"),
            row.get("DATA_WIDTH"),
            row.get("BANK_LOCATOR", ""),
            row.get("LOCATOR", ""),
        )
        for _, row in sorted(rows.items())
        if row.get("PRESENT") != "0" and row.get("SIZE", "0") != "0"
    ]


def _module(kind: str | None, speed: str | None, width: str | None, bank: str, locator: str) -> _Module:
    bits = _leading(width) or 64
    return _Module(
        kind=kind if kind and kind not in ("Unknown", "RAM", "Other") else None,
        speed_mts=_leading(speed),
        width_bytes=bits // 8,
        channel=_channel(bank, locator),
    )


def _channel(bank: str, locator: str) -> str | None:
    """`P0 CHANNEL A` + `DIMM 1`, `P0_Node0_Channel2_Dimm0`, `Controller0-ChannelA-DIMM0`, `CPU1_DIMM_A1`."""
    for text in (bank, locator):
        match = _CHANNEL.match(text.strip())
        if match:
            return match[1]
    match = _LETTER.match(locator.strip())
    return match[1] if match else None


def _leading(text: str | None) -> int | None:
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match and int(match[0]) > 0 else None

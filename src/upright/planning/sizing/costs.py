"""Boxes + prices -> watts and money, each with its arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.base import Basis
from upright.facts.records.box import Box
from upright.facts.records.sizing import Cost

HOURS = 730
"""Of a month."""


def costs(boxes: int, users: int, box: Box | None, prices: Mapping[str, float], host_watts: float | None) -> list[Cost]:
    """Of boxes and spares together."""
    fleet_costs = list(_watts(boxes, box, host_watts))
    total = sum(cost.value for cost in fleet_costs if cost.unit == "W")
    fleet_costs += _money(boxes, users, prices, total, hosts_too=host_watts is not None)
    return fleet_costs


def unused_prices(box: Box | None, prices: Mapping[str, float], host_watts: float | None) -> tuple[str, ...]:
    """What was said and is in no cost, since nobody knows what the GPUs take."""
    if box is not None and _gpu_watts(box)[0] is not None:
        return ()
    given = {"--price kwh": "kwh" in prices, "--host-watts": host_watts is not None}
    return tuple(name for name, is_said in given.items() if is_said)


def _watts(boxes: int, box: Box | None, host_watts: float | None) -> Iterator[Cost]:
    box_watts, why, basis = _gpu_watts(box) if box else (None, "", "assumed")
    if box_watts is None or box is None:
        return
    host = "hosts, fans and network not counted (--host-watts)"
    if host_watts is not None:
        box_watts += host_watts
        host = f"and {host_watts:g} W for the rest of each, as you say"
    yield Cost(
        name="watts at full load", value=boxes * box_watts, unit="W", why=f"{boxes:,} x {why}; {host}", basis=basis
    )


def _gpu_watts(box: Box) -> tuple[float | None, str, Basis]:
    limits = [gpu.power_limit_watts.value for gpu in box.gpus]
    if limits and all(limit is not None for limit in limits):
        total = float(sum(limit for limit in limits if limit is not None))
        return total, f"{len(limits)} GPUs at their power limits, {total:g} W", "probed"
    counts = Counter(gpu.row for gpu in box.gpus)
    rows = [catalog.find("gpus", name) if name else None for name in counts]
    watts = [float(row.power_w.value) for row in rows if isinstance(row, GpuRow) and row.power_w.value is not None]
    if not rows or len(watts) < len(rows):
        return None, "", "assumed"
    kinds = list(zip(counts.items(), watts, strict=True))
    why = " and ".join(f"{count} x {each:g} W (gpus/{name})" for (name, count), each in kinds)
    return sum(count * each for (_, count), each in kinds), why, "catalog"


def _money(boxes: int, users: int, prices: Mapping[str, float], watts: float, *, hosts_too: bool) -> Iterator[Cost]:
    month = 0.0
    if "hour" in prices:
        rent = boxes * prices["hour"] * HOURS
        month += rent
        why = f"{boxes:,} boxes x {prices['hour']:g} an hour x {HOURS} hours"
        yield Cost(name="rent a month", value=rent, unit="money", why=why, basis="derived")
    if "kwh" in prices and watts:
        energy = watts / 1000 * HOURS * prices["kwh"]
        month += energy
        counted = "at most, idle boxes take less" if hosts_too else "GPUs alone, at full load"
        why = f"{watts / 1000:,.1f} kW all the time x {HOURS} hours x {prices['kwh']:g}: {counted}"
        yield Cost(name="energy a month", value=energy, unit="money", why=why, basis="derived")
    if month:
        yield Cost(
            name="a month and user", value=month / users, unit="money", why=f"of {users:,} users", basis="derived"
        )
    if "box" in prices:
        why = f"{boxes:,} boxes x {prices['box']:g}"
        yield Cost(name="purchase", value=boxes * prices["box"], unit="money", why=why, basis="derived")

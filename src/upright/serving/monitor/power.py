"""The watts a host draws now: its GPUs by nvidia-smi, else its CPUs by RAPL; None if neither can be read."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from upright.base.errors import UprightError
from upright.base.host import Host

_GPUS = ("nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits")
# One line a package: its name, its counter, where the counter starts again. Domains inside a package are left out.
_PACKAGES = (
    "cd /sys/class/powercap && for d in *-rapl:?; do "
    'echo "$d $(cat "$d/energy_uj") $(cat "$d/max_energy_range_uj")"; done'
)
_EVERY_SECONDS = 5.0

Watts = tuple[float, str]


class PowerMeter:
    """Reads one machine's power in a thread of its own; asked, it answers at once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last: Watts | None = None
        self._energy: tuple[float, dict[str, tuple[int, int]]] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()

    def watts(self) -> Watts | None:
        return self._last

    def read(self) -> Watts | None:
        """Of now; RAPL counts energy, so its first reading says nothing yet."""
        gpus = gpu_watts(self._host)
        return (gpus, "GPUs, nvidia-smi") if gpus is not None else self._processors()

    def _processors(self) -> Watts | None:
        now, before = (time.monotonic(), package_energy(self._host)), self._energy
        self._energy = now
        watts = mean_watts(before, now) if before else None
        return (watts, "processors, RAPL") if watts is not None else None

    def _run(self) -> None:
        wait, found = 1.0, False
        while not self._stop.is_set():
            try:
                self._last = self.read()
            except UprightError:
                self._last = None  # the machine was not reached, or not now
            else:
                found = found or self._last is not None or bool(self._energy and self._energy[1])
                if not found:
                    return  # neither is there, and neither will come
            self._stop.wait(wait)
            wait = _EVERY_SECONDS


def gpu_watts(host: Host) -> float | None:
    """All of them together; None without a driver, or if one does not say."""
    done = host.run(_GPUS)
    if not done.ok or not done.out.split():
        return None
    try:
        return sum(float(line) for line in done.out.split())
    except ValueError:  # [N/A]
        return None


def package_energy(host: Host) -> dict[str, tuple[int, int]]:
    """Package -> microjoules counted, and where the counter starts again; only root can read them on most machines."""
    counters = {}
    for line in host.run(["sh", "-c", _PACKAGES]).out.splitlines():
        match line.split():
            case [name, energy, most] if energy.isdigit() and most.isdigit():
                counters[name] = (int(energy), int(most))
    return counters


def mean_watts(
    before: tuple[float, dict[str, tuple[int, int]]], now: tuple[float, dict[str, tuple[int, int]]]
) -> float | None:
    seconds = now[0] - before[0]
    grown = [
        (energy - before[1][name][0]) % most for name, (energy, most) in now[1].items() if name in before[1] and most
    ]
    return sum(grown) / 1e6 / seconds if grown and seconds > 0 else None

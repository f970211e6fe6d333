"""Compile targets: limits of a GPU architecture, from the catalogue."""

from __future__ import annotations

import re
from dataclasses import dataclass

from upright.base.errors import CatalogError, UsageError
from upright.facts import catalog


@dataclass(frozen=True)
class CompileTarget:
    """What a kernel is compiled for."""

    capability: int
    """120 for compute capability 12.0."""
    limit_bytes: int | None
    """Shared memory that a block can have; None if no row knows."""
    source: str
    """Which row said so, or why none did."""
    device_name: str = ""
    """A GPU of this capability, as the driver names it; empty if no row knows one."""

    @property
    def name(self) -> str:
        return f"sm_{self.capability}"

    @property
    def compute_capability(self) -> str:
        return f"{self.capability // 10}.{self.capability % 10}"


def target(name: str) -> CompileTarget:
    """`sm_120`, `sm120`, `12.0`, or a GPU that the catalogue has."""
    written = re.fullmatch(r"(?:sm_?)?(\d{2,3})a?|(\d{1,2})\.(\d)", name.strip().lower())
    if written is None:
        try:
            row = catalog.gpu(name)
            return of_capability(row.compute_capability, row.device_names[0])
        except CatalogError as error:
            raise UsageError(f"{name} is no target: {error.message}", hint="sm_120, 12.0 or a GPU's name") from None
    return of_capability(f"{written[1][:-1]}.{written[1][-1]}" if written[1] else f"{written[2]}.{written[3]}")


def of_capability(compute_capability: str, device_name: str | None = None) -> CompileTarget:
    """The least that any GPU of this capability offers: a kernel that fits fits on each of them. Engines choose tuned
    files by the driver's name of the one that is meant."""
    major, dot, minor = compute_capability.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise UsageError(
            f"kernels are compiled for NVIDIA GPUs only, not for {compute_capability}", hint="--target sm_120, for one"
        )
    number = int(major) * 10 + int(minor)
    alike = [row for row in catalog.gpus() if row.compute_capability == compute_capability]
    known = [row for row in alike if row.shared_memory_block_kib.value is not None]
    if not known:
        return CompileTarget(
            number,
            None,
            f"no catalogue row gives the shared memory of capability {compute_capability}",
            device_name or "",
        )
    least = min(known, key=lambda row: row.shared_memory_block_bytes)
    return CompileTarget(
        number, least.shared_memory_block_bytes, f"catalogue row gpus/{least.id}", device_name or least.device_names[0]
    )

"""Routed experts offloaded to CPU under ranks on GPUs: what lies in system RAM, and how many stay on the GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from upright.base.units import format_memory
from upright.engines.facets.spread import HostExperts
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import DeviceBudget, ExpertPlace, LedgerLine, Objection
from upright.planning.placement.devices import (
    HOST,
    HOST_RESERVE,
    LEAST_HOST_BYTES,
    RAM_UNSAID,
    host_bytes,
    ram_not_specified,
)
from upright.planning.placement.plan_limits import exact_line


@dataclass(frozen=True)
class ExpertOffload:
    """The routed experts of one model on one box."""

    box: Box
    model: Model
    facet: HostExperts

    @property
    def routed_bytes(self) -> int:
        return sum(line.bytes for line in self.model.weights if line.group == "routed_experts")

    @property
    def layers(self) -> tuple[int, ...]:
        held = {line.layer for line in self.model.weights if line.group == "routed_experts"}
        return tuple(sorted(layer for layer in held if layer is not None))

    @property
    def count(self) -> int:
        return self.model.architecture.experts.count if self.model.architecture.experts else 0

    def without_experts(self) -> Model:
        """What the GPUs hold whatever happens."""
        rest = tuple(line for line in self.model.weights if line.group != "routed_experts")
        return self.model.model_copy(update={"weights": rest})

    def most_on_gpus(self, room_bytes: int, tensor: int) -> int:
        """Experts of each layer that so much room on every rank holds."""
        each_rank = self.routed_bytes / tensor
        return max(0, min(self.count, int(room_bytes * self.count / each_rank))) if each_rank else 0

    def on_gpu(self, device: str, experts: int, tensor: int) -> Iterator[LedgerLine]:
        if experts:
            share = self.routed_bytes * experts // self.count // tensor
            why = f"{experts} of {self.count} routed experts of each layer, 1/{tensor} of each"
            yield exact_line(device, "experts", share, why, self.model.basis)

    def on_host(self) -> LedgerLine:
        why = f"all routed experts of {len(self.layers)} layers, those on GPUs too"
        return exact_line(HOST, "experts", self.routed_bytes, why, self.model.basis)

    def places(self) -> tuple[ExpertPlace, ...]:
        return (ExpertPlace(device=HOST, layers=self.layers),) if self.layers else ()

    def budget(self) -> DeviceBudget:
        known = host_bytes(self.box)
        if known.value is None:
            why = RAM_UNSAID
        else:
            why = f"memory a new process can have, less {HOST_RESERVE:.0%} for the system ({known.source or 'unknown'})"
        offered = int(int(known.value or LEAST_HOST_BYTES) * (1 - HOST_RESERVE))
        return DeviceBudget(device=HOST, capacity_bytes=offered, basis=known.basis or "assumed", why=why)

    def objections(self, host_lines: Sequence[LedgerLine]) -> Iterator[Objection]:
        """Too little RAM, or a CPU that cannot read the experts; a CPU of which nothing is known is no obstacle."""
        offered = self.budget().capacity_bytes
        needed = sum(line.high_bytes for line in host_lines)
        short = needed - offered
        if short > 0 and host_bytes(self.box).value is None:
            yield ram_not_specified(needed)
        elif short > 0:
            message = (
                f"{format_memory(short)} too much for {format_memory(offered)} of system RAM: it holds every "
                "routed expert"
            )
            yield Objection(code="does-not-fit", message=message, device=HOST, short_bytes=short)
        form, flags = self.facet.format_of(self.model.quantisation), self.box.cpu.flags
        if form.name is None:
            message = (
                f"no CPU kernel reads experts stored as {self.model.quantisation or 'they are'}: convert them first"
            )
            yield Objection(code="no-cpu-format", message=message)
        elif flags and (lacking := [name for name in form.cpu_flags if name not in flags]):
            message = f"experts in {form.name} want {', '.join(lacking)}, which {self.box.cpu.name} does not have"
            yield Objection(code="no-cpu-format", message=message)

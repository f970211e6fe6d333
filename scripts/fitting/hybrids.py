"""Published runs of the llama.cpp family: with no GPU, with GPUs alone, and with experts offloaded to CPU.

Rows of speeds name the sweeps that they are held against (`unseen`); here are the runs whose placement is told in
their text only. One constant is fitted on both, what the cores multiply beside GPUs; each machine's error is that of a
fit on the other machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.fitting.speeds import held_out
from upright.facts import catalog
from upright.facts.catalog.rows.speed import Constants
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.plan import Parallel
from upright.planning.speed.fitting import Sample, fit, miss
from upright.planning.speed.layered import HostFigures, Layered
from upright.planning.speed.published import cells, gpu_row_figures, measurements, model_record, row_of
from upright.planning.speed.rows import speed_row
from upright.planning.speed.samples import LayerSample
from upright.planning.speed.spread import FEW_SOURCES, SpeedMiss
from upright.planning.speed.work import rank_work

# Twelve channels of DDR5-6400 a socket.
SOCKET = 614.4e9
PCIE5_X16 = 63.0e9


@dataclass(frozen=True)
class Hybrid:
    """What a published row leaves to its text: where the experts were, and how fast memory is."""

    id: str
    model: str
    artifact: str | None
    gpu: str | None
    expert_layers: int | None
    """Layers of experts on GPUs; None for all."""
    bandwidth: float = SOCKET
    measured: bool = False
    ubatch: int | None = None
    """Set where the prompt's ubatch is known."""
    context: int = 4096
    note: str = ""

    @property
    def row(self) -> str:
        """The constants that a plan for such a run would take."""
        (run,) = measurements((self.id,))
        constants = row_of(run)
        assert constants is not None
        return constants.id


_IQ3, _Q4 = "ubergarm/Kimi-K2.6-GGUF:IQ3_K", "ubergarm/Kimi-K2.6-GGUF:Q4_X"
SEEN_BY_NOBODY = (
    Hybrid("m402", "kimi-k2.6", _IQ3, "rtx-pro-6000-max-q", 0, note="every expert offloaded to CPU"),
    Hybrid("m403", "kimi-k2.6", _IQ3, "rtx-pro-6000-max-q", 6, note="3 + 3 layers"),
    Hybrid("m404", "kimi-k2.6", _IQ3, "rtx-pro-6000-max-q", 10, ubatch=4096,
           note="8 + 2 layers: their VRAM as published, 43 and 44 GiB, cannot be"),
    Hybrid("m405", "kimi-k2.6", _Q4, "rtx-pro-6000-max-q", 8,
           note="8 layers: 455 GiB of experts stayed in system RAM"),
    Hybrid("m406", "kimi-k2.6", _Q4, "rtx-pro-6000-max-q", 8, note="mainline; layers as with ik"),
    Hybrid("m407", "kimi-k2.6", _Q4, "rtx-pro-6000-workstation", 0,
           note="another machine; placement not published, none assumed"),
    Hybrid("m408", "kimi-k2.6", _Q4, "rtx-pro-6000-workstation", 0,
           note="the same machine, mainline"),
    Hybrid("m339", "kimi-k2.6", "unsloth/Kimi-K2.6-GGUF:UD-Q4_K_XL", "rtx-pro-6000-workstation", 6,
           bandwidth=2 * SOCKET * 23 / 24, note="two sockets, memory placed by node; Kimi K2 of the same shape"),
)  # fmt: skip


def family() -> tuple[str, ...]:
    """Rows of constants that are held against runs with a processor's part."""
    rows = (speed_row(name) for name in catalog.rows("speeds"))
    return tuple(row.id for row in rows if row.unseen)


@dataclass(frozen=True)
class HostRun:
    """A published run whose weights the processor reads, all or some of them."""

    machine: str
    group: str
    sample: Sample
    context_tokens: int
    with_gpus: bool


def host_runs(name: str) -> tuple[HostRun, ...]:
    """Those that a row of constants is held against."""
    return tuple(_host_runs(name))


def _host_runs(name: str) -> Iterator[HostRun]:
    for run in SEEN_BY_NOBODY:
        if run.row == name:
            (row,) = measurements((run.id,))
            yield HostRun(_machine(row), run.id, decoded(run), run.context, True)
    for cell in cells(speed_row(name).unseen):
        if not cell.is_prompt:
            tokens, with_gpus = cell.load.context_tokens, cell.load.gpu is not None
            yield HostRun(_machine(cell.row), cell.group, cell.sample, tokens, with_gpus)


def _machine(row: MeasurementRow) -> str:
    """By the processor's number: runs of one machine never tell about themselves."""
    number = re.search(r"\d{4}\w*", row.cpu or "")
    return number[0] if number else row.id


def host_constants(name: str, without: str = "") -> Constants:
    """What cores multiply beside GPUs, by runs on machines other than one.

    The shortest context of each sweep tells it: in long ones the cache on the GPUs has a part of its own.
    """
    runs = [run for run in host_runs(name) if run.with_gpus]
    shortest = {
        group: min(run.context_tokens for run in runs if run.group == group) for group in {r.group for r in runs}
    }
    known = [run.sample for run in runs if run.machine != without and run.context_tokens == shortest[run.group]]
    return fit(known, speed_row(name).constants, ("host_gb_s",))


def unseen_misses(name: str) -> tuple[SpeedMiss, ...]:
    """Errors of decode on every published run of the kind, each machine predicted by the others.

    Few machines tell no band: then those of the other engine of the family count as well, by constants of its own.
    """
    own = _misses(name)
    if len({missed.source for missed in own}) >= FEW_SOURCES:
        return own
    return (*own, *(missed for other in family() if other != name for missed in _misses(other)))


def _misses(name: str) -> tuple[SpeedMiss, ...]:
    runs = host_runs(name)
    constants = {machine: host_constants(name, machine) for machine in {run.machine for run in runs}}
    return tuple(SpeedMiss(miss(run.sample, constants[run.machine]), run.machine) for run in runs)


def gpu_misses(name: str) -> tuple[SpeedMiss, ...]:
    """Errors of decode where every layer is on GPUs, each run by the row that a plan for its GPU would take.

    With them those of the runs that the row was fitted on, each configuration left out in turn.
    """
    row = speed_row(name)
    at_home = held_out(row, lambda cell: cell.group) if row.fits else ()
    known = [(cell, of) for cell in cells(row.gpu_runs) if not cell.is_prompt and (of := row_of(cell.row)) is not None]
    elsewhere = [
        (cell, miss(cell.sample, of.constants)) for cell, of in known if of.gpu_runs == row.gpu_runs and cell.load.gpu
    ]
    return tuple(SpeedMiss(off, cell.source) for cell, off in (*at_home, *elsewhere))


def decoded(hybrid: Hybrid) -> LayerSample:
    (row,) = measurements((hybrid.id,))
    rate = row.decode_tokens_per_second or 0.0
    return LayerSample(hybrid.id, layered(hybrid), speed_row(hybrid.row).kernels, float(hybrid.context), rate)


def prompted(hybrid: Hybrid, ubatch: int) -> LayerSample:
    (row,) = measurements((hybrid.id,))
    rate = row.prefill_tokens_per_second or 0.0
    return LayerSample(hybrid.id, layered(hybrid), speed_row(hybrid.row).kernels, 0.0, rate, ubatch)


def layered(hybrid: Hybrid) -> Layered:
    model = model_record(hybrid.model, hybrid.artifact)
    experts = len({line.layer for line in model.weights if line.group == "routed_experts"})
    host = HostFigures(hybrid.bandwidth, hybrid.measured, PCIE5_X16 if hybrid.gpu else None)
    on_gpus = experts if hybrid.expert_layers is None else hybrid.expert_layers
    return Layered(
        work=rank_work(model, Parallel(), "f16"),
        silicon=gpu_row_figures(catalog.gpu(hybrid.gpu)) if hybrid.gpu else None,
        host=host,
        expert_layers=experts,
        host_layers=experts - on_gpus,
    )

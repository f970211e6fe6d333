"""Published runs of the llama.cpp family: with no GPU, with GPUs alone, and with experts offloaded to CPU.

Rows of speeds say what their constants were fitted on and which sweeps they are held against (`unseen`); here are the
runs whose placement is told in their text only. None of them, nor its machine, was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

from upright import catalog
from upright.planning.speed.fits import cells, speed_row
from upright.planning.speed.fitting import miss
from upright.planning.speed.layered import HostFigures, Layered
from upright.planning.speed.published import measurements, model_record, row_of, silicon
from upright.planning.speed.samples import LayerSample
from upright.planning.speed.work import rank_work
from upright.records.plan import Parallel

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
)  # fmt: skip


def unseen_misses(name: str) -> tuple[float, ...]:
    """Errors of decode on every published hybrid run that the row was not fitted on."""
    row = speed_row(name)
    constants = row.constants
    swept = (cell for cell in cells(row.unseen) if not cell.is_prompt and cell.load.gpu is not None)
    known = [miss(decoded(run), constants) for run in SEEN_BY_NOBODY if run.row == name]
    return (*known, *(miss(cell, constants) for cell in swept))


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
        silicon=silicon(catalog.gpu(hybrid.gpu)) if hybrid.gpu else None,
        host=host,
        expert_layers=experts,
        host_layers=experts - on_gpus,
    )

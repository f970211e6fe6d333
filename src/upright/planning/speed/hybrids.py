"""Published runs of the llama.cpp family: with no GPU, with GPUs alone, and with experts offloaded to CPU.

System RAM's constant is fitted on a run without a GPU and the GPU's on a run without system RAM: the hybrid runs are
predicted by constants that have seen neither them nor their machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from upright import catalog
from upright.catalog.rows.base import Fact
from upright.catalog.rows.model import Artifact
from upright.catalog.rows.speed import Constants
from upright.deriving.catalogued import record
from upright.planning.speed.fits import cells, speed_row
from upright.planning.speed.fitting import fit, miss
from upright.planning.speed.layered import Host, Layered
from upright.planning.speed.published import measurements, model_record, silicon
from upright.planning.speed.samples import LayerSample
from upright.planning.speed.work import rank_work
from upright.records.model import Model
from upright.records.plan import Parallel
from upright.units import GIB

# Twelve channels of DDR5-6400 a socket.
SOCKET = 614.4e9
PCIE5_X16 = 63.0e9


@dataclass(frozen=True)
class Hybrid:
    """What a published row leaves to its text: where the experts were, and how fast memory is."""

    id: str
    row: str
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


WITHOUT_GPU = (
    Hybrid("m340", "ik-llamacpp", "kimi-k2-instruct", "ubergarm/Kimi-K2-Instruct-GGUF:IQ2_KL", None, 0, context=0),
    Hybrid("m341", "ik-llamacpp", "kimi-k2-instruct", "ubergarm/Kimi-K2-Instruct-GGUF:IQ2_KL", None, 0, context=8192),
    Hybrid("m342", "ik-llamacpp", "kimi-k2-instruct", "ubergarm/Kimi-K2-Instruct-GGUF:IQ2_KL", None, 0, context=0),
)
GPUS_ALONE = tuple(
    Hybrid(name, "ik-llamacpp", "deepseek-r1", "132 GiB", "rtx-pro-6000-workstation", None, context=context)
    for name, context in (("m363", 0), ("m364", 4096), ("m365", 8192), ("m366", 16384))
)
MAINLINE = (
    Hybrid("m339", "llamacpp", "kimi-k2.6", "unsloth/Kimi-K2.6-GGUF:UD-Q4_K_XL", "rtx-pro-6000-workstation", 6,
           bandwidth=23 / 12 * SOCKET),
)  # fmt: skip
_IQ3, _Q4 = "ubergarm/Kimi-K2.6-GGUF:IQ3_K", "ubergarm/Kimi-K2.6-GGUF:Q4_X"
SEEN_BY_NOBODY = (
    Hybrid("m402", "ik-llamacpp", "kimi-k2.6", _IQ3, "rtx-pro-6000-max-q", 0, note="every expert offloaded to CPU"),
    Hybrid("m403", "ik-llamacpp", "kimi-k2.6", _IQ3, "rtx-pro-6000-max-q", 6, note="3 + 3 layers"),
    Hybrid("m404", "ik-llamacpp", "kimi-k2.6", _IQ3, "rtx-pro-6000-max-q", 10, ubatch=4096,
           note="8 + 2 layers: their VRAM as published, 43 and 44 GiB, cannot be"),
    Hybrid("m405", "ik-llamacpp", "kimi-k2.6", _Q4, "rtx-pro-6000-max-q", 8,
           note="8 layers: 455 GiB of experts stayed in system RAM"),
    Hybrid("m406", "llamacpp", "kimi-k2.6", _Q4, "rtx-pro-6000-max-q", 8, note="mainline; layers as with ik"),
    Hybrid("m407", "ik-llamacpp", "kimi-k2.6", _Q4, "rtx-pro-6000-workstation", 0,
           note="another machine; placement not published, none assumed"),
    Hybrid("m408", "llamacpp", "kimi-k2.6", _Q4, "rtx-pro-6000-workstation", 0,
           note="the same machine, mainline"),
)  # fmt: skip


# Sweeps on further machines, with GPUs; the placement is the author's.
SWEEPS = {
    "ik-llamacpp": ("anikifoss-7975wx-5090", "ik-7965wx-a6000", "ik-7965wx-a6000-pr370", "ubergarm-7965wx-r1"),
    "llamacpp": ("lcpp-7965wx-a6000",),
}


def unseen_misses(name: str) -> tuple[float, ...]:
    """Errors of decode on every published hybrid run that the row was not fitted on."""
    constants = speed_row(name).constants
    swept = (cell for cell in cells(SWEEPS[name]) if not cell.is_prompt and cell.load.gpu is not None)
    known = [miss(decoded(each), constants) for each in SEEN_BY_NOBODY if each.row == name]
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
    model = _model(hybrid)
    experts = len({line.layer for line in model.weights if line.group == "routed_experts"})
    host = Host(hybrid.bandwidth, hybrid.measured, PCIE5_X16 if hybrid.gpu else None)
    on_gpus = experts if hybrid.expert_layers is None else hybrid.expert_layers
    return Layered(
        work=rank_work(model, Parallel(), "f16"),
        silicon=silicon(catalog.gpu(hybrid.gpu)) if hybrid.gpu else None,
        host=host,
        expert_layers=experts,
        host_layers=experts - on_gpus,
    )


def fit_ik() -> Constants:
    """As the row ik-llamacpp was made."""
    start = speed_row("ik-llamacpp").constants
    alone = fit([decoded(each) for each in GPUS_ALONE], start, ("layer_us", "cache_efficiency"))
    return fit([decoded(each) for each in WITHOUT_GPU], alone, ("host_efficiency",))


def fit_mainline() -> Constants:
    """As the row llamacpp was made: the GPU's constants are those of ik_llama.cpp."""
    row = speed_row("llamacpp")
    return fit([decoded(each) for each in MAINLINE], row.constants, ("host_efficiency",))


def _model(hybrid: Hybrid) -> Model:
    if hybrid.artifact != "132 GiB":
        return model_record(hybrid.model, hybrid.artifact)
    row = catalog.model(hybrid.model)
    size = Fact(value=132 * GIB, grade="A", source="measurements/m363")
    artifact = Artifact(
        repository="GGUF", format="gguf", scheme="GGUF, about 1.7 bits", size_bytes=size, engines=("ik_llama.cpp",)
    )
    found = record(row, artifact)
    assert found is not None
    return found

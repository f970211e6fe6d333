"""How fast an engine works on a silicon and its wires: a few constants, each of them something that hardware does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from upright.catalog.rows.base import Range, Row, Words
from upright.records.base import Basis, Part

Wires = Literal["pcie", "nvlink", "one"]
"""How GPUs talk: over PCIe, over NVLink, or there is only one."""
Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


class Kernels(Part):
    """What is read in the engine's source, not fitted: how its kernels cut the work."""

    one_shot_rows: int = 0
    """Tokens of a step up to which an all-reduce is one shot over PCIe; 0 if NCCL does them all."""
    cache_splits: int | None = None
    """Pieces that the attention kernel cuts a sequence into; None if it always fills the GPU."""
    head_tile: int = 16
    """Query heads that one block of the attention kernel serves: the cache is read once for each."""
    head_tiles: dict[int, int] = Field(default_factory=dict)
    """Other tiles for some numbers of heads, where the engine has a table."""
    upload_from_rows: int | None = None
    """Rows an expert must get of a ubatch before experts in main memory are copied to the GPU to read a prompt."""
    upload_from_tokens: int | None = None
    """Or tokens of the ubatch, whatever the number of experts."""


class Constants(Part):
    """What is fitted. Every one has a unit and a plain meaning."""

    layer_us: Positive
    """Fixed time of a layer: launches, norms, router, kernels too small to fill a GPU."""
    weight_efficiency: Share
    """Share of the memory bandwidth at which weights are read."""
    expert_spread: Share = 1.0
    """Share of the experts that a batch draws from as if evenly: routers have favourites."""
    cache_efficiency: Share = 1.0
    """Share of the memory bandwidth at which the cache is read, once every multiprocessor is busy."""
    one_shot_us: float = 0.0
    """Start of a one-shot all-reduce."""
    one_shot_gb_s: Positive = 1e9
    """Bandwidth of a one-shot all-reduce: every GPU sends to every other."""
    hop_us: float = 0.0
    """One hop of an NCCL ring; an all-reduce over n GPUs takes 2 (n - 1) of them."""
    collective_gb_s: Positive = 1e9
    """Bus bandwidth of NCCL for the messages of a decode step."""
    exchange_us: float = 0.0
    """Start of each of the three exchanges a layer by which ranks share a cache."""
    host_efficiency: Share = 1.0
    """Share of main memory's theoretical bandwidth at which the processor reads weights."""
    host_measured_efficiency: Share = 1.0
    """The same of its measured bandwidth, where somebody measured it."""
    upload_efficiency: Share = 1.0
    """Share of the PCIe slot's bandwidth at which experts are copied to a GPU to read a prompt."""
    compute_efficiency: Share = 1.0
    """Share of the dense bf16 tensor throughput that the layers reach while a prompt is read."""
    attention_efficiency: Share = 1.0
    """The same for attention between the tokens of a prompt."""
    prompt_gb_s: Positive = 1e9
    """Bus bandwidth of NCCL for the long messages of a prompt."""


class Errors(Part):
    """Relative errors of predictions, on rows that the fit has not seen."""

    median: float
    """Half of the rows are closer."""
    ninth: float
    """Nine of ten rows are closer."""
    low: float
    """Measured over predicted, a tenth of the rows below: the lower end of the band that plans show."""
    high: float
    """Measured over predicted, a tenth of the rows above: its upper end."""
    rows: int
    """How many rows."""
    how: Words
    """What was left out."""


class SpeedRow(Row):
    """Constants of one engine on one kind of silicon and wires."""

    engine: str
    """vllm, sglang, llama.cpp, ik_llama.cpp."""
    versions: Range = "*"
    """Versions that it holds for."""
    capability: Range = "*"
    """Compute capabilities that it holds for."""
    wires: tuple[Wires, ...]
    """Wires that it holds for."""
    patches: tuple[str, ...] = ()
    """Only for images that carry all of these; upstream otherwise."""
    kernels: Kernels = Kernels()
    """How the engine's kernels cut the work."""
    constants: Constants
    """What was fitted."""
    sharing_measured: bool = False
    """Whether runs with a shared cache were among those that were fitted: only then is it shared for speed."""
    fitted_on: tuple[str, ...] = ()
    """Measurements that it was fitted on, as ids or spans of ids: a test fits it again."""
    errors: Errors | None = None
    """How far it is off on rows that it has not seen, on its own silicon."""
    transfer: Errors | None = None
    """How far it is off elsewhere; None if nobody measured there."""
    basis: Basis
    """measured if it was fitted on runs, derived if taken over from another row."""
    why: Words
    """What it is made of."""

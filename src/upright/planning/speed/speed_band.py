"""The band of a predicted speed: how far the plan is from what the constants were fitted on.

At home the band is where the row's own held-out errors say that one more source will lie. Every step away (another
model, another format of the experts, another GPU of the architecture, another version, more users or a longer context
than were fitted) adds what the error across such a step was measured to have beyond that at home. A band that would be
wider than people can plan with is not shown: the speed is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.speed import Errors, SpeedRow, Step, TransferRow
from upright.facts.records.model import Architecture, CompressedAttention, Model, SharedAttention
from upright.planning.placement.engine_support import packing_of

WIDEST = 3.0
"""Upper end over lower end of the widest band that is still an answer, of decode and of prompts."""
_ACROSS: frozenset[Step] = frozenset({"model", "format"})
"""On another architecture the error is that of such runs, most of them of other models and formats too."""
_FORMATS = ("nvfp4", "mxfp4", "int4", "awq", "gptq", "fp8", "bf16")


class SpeedQuery(NamedTuple):
    """What is asked of the constants."""

    shape: str
    expert_format: str
    gpu: str | None
    version: str | None
    users: int
    context_tokens: int
    on_gpus: bool = False
    """Whole layers on GPUs, and the processor has no part."""
    of_sibling: bool = False
    """Whether the row was made for another generation of the silicon than asks."""


class RateBand(NamedTuple):
    """Factors around a predicted rate."""

    low: float
    high: float
    steps: tuple[Step, ...]
    """How the plan differs from what the constants were fitted on; empty at home."""
    centre: float = 1.0
    """Where between them the figure lies that is printed."""

    @property
    def known(self) -> bool:
        return self.high <= self.low * WIDEST


def attention_known(architecture: Architecture) -> bool:
    """How fast a compressed or shared cache is read was not measured."""
    return not any(isinstance(kind, CompressedAttention | SharedAttention) for kind in architecture.attention)


def shape_name(architecture: Architecture) -> str:
    return f"{architecture.name} {architecture.layers}x{architecture.hidden_size}"


def expert_format(model: Model) -> str:
    """How the weights that a step mostly reads are stored; a GGUF, or a packing of one engine's own, by its bits."""
    lines = [line for line in model.weights if line.group == "routed_experts"] or list(model.weights)
    if kind := "gguf" if model.format == "gguf" else packing_of(model):
        parameters = sum(line.parameters for line in lines)
        return f"{kind} {8 * sum(line.bytes for line in lines) / parameters:.0f} bits" if parameters else kind
    stated = f"{model.quantisation or ''} {' '.join(sorted({line.dtype for line in lines}))}".lower()
    name = next((name for name in _FORMATS if name in stated), None)
    if name in ("awq", "gptq"):
        return "int4"
    return name or "bf16"


def steps_away(row: SpeedRow, load: SpeedQuery) -> tuple[Step, ...]:
    """In which ways the load is not what the row was fitted on."""
    return () if row.home is None else tuple(_steps(row, load))


def rate_band(row: SpeedRow, load: SpeedQuery, of: Literal["decode", "prompt"] = "decode") -> RateBand | None:
    """None if no error was ever measured for the row, or across one of the steps."""
    nearest = nearest_errors(row, load, of)
    steps = steps_away(row, load)
    if of == "prompt":  # a machine's bundle tells of decode: its prompts are priced as any other's
        steps = tuple(step for step in steps if step != "machine")
    if "architecture" in steps:
        steps = tuple(step for step in steps if step not in _ACROSS)
    added = [_beyond(step, of, row) for step in steps if step != "architecture"]
    if nearest is None or None in added:
        return None
    centre = math.log(nearest.low * nearest.high) / 2
    reach = math.hypot(math.log(nearest.high / nearest.low) / 2, *(math.log(factor) for factor in added if factor))
    return RateBand(min(1.0, math.exp(centre - reach)), max(1.0, math.exp(centre + reach)), steps)


def nearest_errors(row: SpeedRow, load: SpeedQuery, of: Literal["decode", "prompt"] = "decode") -> Errors | None:
    """What a band starts from: the row's own errors, or those of runs on other silicon than it was made for."""
    if "architecture" in steps_away(row, load):
        across = _nearest_transfer("architecture", of, row)
        return across.errors if across else None
    if of == "prompt":
        return row.prompt_errors
    return (row.gpu_errors if load.on_gpus else None) or row.errors


def _steps(row: SpeedRow, load: SpeedQuery) -> Iterator[Step]:
    home = row.home
    assert home is not None
    if row.machine is not None:
        yield "machine"
    if home.shapes and load.shape not in home.shapes:
        yield "model"
    if home.formats and load.expert_format not in home.formats:
        yield "format"
    if not load.of_sibling and home.gpus and (load.gpu or "none") not in home.gpus:
        yield "gpu"
    if load.version is not None and not versions.in_range(load.version, home.versions):
        yield "version"
    if load.users > home.users:
        yield "users"
    if load.context_tokens > home.context_tokens:
        yield "context"
    if load.of_sibling:
        yield "architecture"


def _beyond(step: Step, of: Literal["decode", "prompt"], speeds: SpeedRow) -> float | None:
    """As it was measured on this very row's runs, else on its engine's, else on any."""
    nearest = _nearest_transfer(step, of, speeds)
    return nearest.beyond if nearest else None


def _nearest_transfer(step: Step, of: Literal["decode", "prompt"], speeds: SpeedRow) -> TransferRow | None:
    known = [row for row in _transfers() if (row.step, row.of) == (step, of)]
    if step == "architecture":  # what other constants lose on silicon of another generation tells nothing of these
        known = [row for row in known if speeds.fitted_on in {each.fitted_on for each in _speeds(row)}]
    return max(known, key=lambda row: (row.speeds == (speeds.id,), speeds.engine in _engines(row)), default=None)


def _engines(transfer: TransferRow) -> set[str]:
    return {row.engine for row in _speeds(transfer)}


def _speeds(transfer: TransferRow) -> Iterator[SpeedRow]:
    rows = (catalog.find("speeds", name) for name in transfer.speeds)
    return (row for row in rows if isinstance(row, SpeedRow))


def _transfers() -> Iterable[TransferRow]:
    return (row for row in catalog.rows("transfers").values() if isinstance(row, TransferRow))

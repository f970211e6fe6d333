"""Samples made from published measurements: what constants are fitted on and held against.

The sample is made as a plan would be: the catalogue's model and artifact, the GPU's row, the row of constants that a
plan for such a box would take. What its author does not say is not guessed: then there is no sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog import published_rates
from upright.facts.catalog.published_rates import answered_tokens, gb_s, gpu_named, one_shot
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.speed import Interconnect, Kernels, SpeedRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.model import Model
from upright.facts.records.plan import Parallel
from upright.models.deriving.catalogue_models import records
from upright.models.deriving.named_builds import build_by_name
from upright.planning.placement.engine_support import layers_of
from upright.planning.speed.decode import Amount
from upright.planning.speed.layered import HostFigures, Layered
from upright.planning.speed.rows import ChosenRow, choose_row, speed_row
from upright.planning.speed.samples import LayerSample, RankSample
from upright.planning.speed.speed_band import SpeedQuery, expert_format, shape_name
from upright.planning.speed.work import AttentionReader, GpuFigures, rank_work

_PARALLEL = re.compile(r"\bTP(\d+)(?: DCP(\d+))?")
_WHOLE_EXPERTS = re.compile(r"\bEP([2-9]|\d\d)")
_INPUT = re.compile(r"mean input (\d+)")
_UBATCH = re.compile(r"\bubatch (\d+)")
_GUESSES = re.compile(r"\bk=(\d+)")
_SCHEMES = (("nvfp4",), ("mxfp4",), ("fp8",), ("awq", "int4", "gptq"), ("bf16",))
_RELEASE = re.compile(r"(?<![\d.])0\.\d+\.\d+(?:\.post\d+)?|(?<=v)0\.\d+")
_PCIE_X16 = {3: 15.75e9, 4: 31.5e9, 5: 63.0e9}


@dataclass(frozen=True)
class FittedCell:
    """A published run with what it is an instance of."""

    row: MeasurementRow
    sample: RankSample | LayerSample
    load: SpeedQuery

    @property
    def id(self) -> str:
        return self.sample.id

    @property
    def batch(self) -> int:
        return self.sample.batch

    @property
    def tokens(self) -> float:
        return self.sample.tokens

    @property
    def tokens_per_second(self) -> float:
        return self.sample.tokens_per_second

    def amounts(self, skew: float) -> Iterable[Amount]:
        return self.sample.amounts(skew)

    @property
    def is_prompt(self) -> bool:
        return self.row.decode_tokens_per_second is None

    @property
    def group(self) -> str:
        return self.row.group or f"{self.row.parallelism} {self.row.engine_version}"

    @property
    def source(self) -> str:
        """Who measured which model on what: its cells are alike."""
        return f"{publisher(self.row)} {self.load.shape} {self.load.expert_format} {self.load.gpu}"


def measurements(ids: Iterable[str]) -> Sequence[MeasurementRow]:
    """Rows by id, by span (`m023-m044`), or by the group that they belong to."""
    known = {row.id: row for row in catalog.measurements()}
    order = list(known)
    chosen: list[MeasurementRow] = []
    for name in ids:
        first, _, last = name.partition("-")
        if first in known and (last or first) in known:
            chosen += [known[id_] for id_ in order[order.index(first) : order.index(last or first) + 1]]
        elif members := [row for row in known.values() if row.group == name]:
            chosen += members
        else:
            raise UsageError(f"no measurement {name}", hint="upright catalog list measurements")
    return chosen


def sample(row: MeasurementRow) -> RankSample | LayerSample | None:
    """None if the row does not say enough, or speculates without saying how much was accepted."""
    model, constants, gpu = model_of(row), row_of(row), gpu_of(row)
    if model is None or constants is None:
        return None
    if layers_of(engine_of(row)) is not None:
        return _layer_sample(row, constants, model, gpu)
    return rank_sample(row, constants.kernels, model, catalog.gpu(gpu)) if gpu else None


def cells(ids: Sequence[str]) -> tuple[FittedCell, ...]:
    """Those of the runs that say enough."""
    return tuple(_cells(ids))


def _cells(ids: Sequence[str]) -> Iterator[FittedCell]:
    rows = measurements(ids)
    shared = {name for name in {row.group for row in rows if row.group} if shares_a_prompt(_of_group(name, rows))}
    for row in rows:
        made, load = sample(row), load_of(row)
        if row.group in shared and (row.concurrency or 1) > 1 and row.context_tokens:
            continue
        if made is not None and load is not None:
            yield FittedCell(row, made, load)


def _of_group(name: str, rows: Sequence[MeasurementRow]) -> Iterable[MeasurementRow]:
    return (row for row in rows if row.group == name)


@cache
def fitted_on(name: str, *, prompts: bool = False) -> tuple[FittedCell, ...]:
    """The row's runs: decode steps, or prompts."""
    row = speed_row(name)
    most = row.most_users or max(cell.load.users for cell in cells(row.fitted_on))
    return tuple(cell for cell in cells(row.fitted_on) if cell.is_prompt is prompts and cell.load.users <= most)


def shares_a_prompt(rows: Iterable[MeasurementRow]) -> bool:
    """Whether a benchmark gave all its users the same prompt: some of its cells are more cache than its GPUs can hold.

    How much of such a cache a step reads is not known: engines keep one copy, and some read it once for all.
    """
    return any(_cache_share(row) > 1 for row in rows)


def _cache_share(row: MeasurementRow) -> float:
    """Of what weights leave of a GPU's memory, the part that the users' contexts would take if each had its own."""
    cell, model, gpu = sample(row), model_of(row), gpu_of(row)
    if not isinstance(cell, RankSample) or cell.kind != "decode" or model is None or gpu is None:
        return 0.0
    work = cell.work
    kept = sum(
        reader.layers * _kept_tokens(reader, cell.context) * (reader.token_bytes + reader.extra_token_bytes)
        for reader in work.readers
    )
    room = float(catalog.gpu(gpu).memory_gb.value or 0) * 1e9 - model.tensor_bytes / work.tensor
    return cell.batch * kept / work.sharing / room if room > 0 else 0.0


def _kept_tokens(reader: AttentionReader, context: float) -> float:
    """A window forgets; an indexer reads little, and everything is kept for it."""
    return context if reader.latent else min(context, reader.most_tokens or context)


def load_of(row: MeasurementRow) -> SpeedQuery | None:
    model = model_of(row)
    if model is None:
        return None
    return SpeedQuery(
        shape=shape_name(model.architecture),
        expert_format=expert_format(model),
        gpu=gpu_of(row),
        version=None,
        users=row.concurrency or 1,
        context_tokens=row.context_tokens or 0,
        of_sibling=(chosen := chosen_row(row, gpu_of(row))) is not None and chosen.of_sibling,
    )


def _capability(gpu: str | None) -> str | None:
    return catalog.gpu(gpu).compute_capability if gpu else None


def engine_of(row: MeasurementRow) -> str:
    """Forks are planned as the engine that they are forks of."""
    return row.engine.partition("-fork")[0]


def gpu_of(row: MeasurementRow) -> str | None:
    """The catalogue's id of the GPU; None for a run without one."""
    gpu = gpu_named(row.gpu)
    return gpu.id if gpu else None


def publisher(row: MeasurementRow) -> str:
    return published_rates.publisher(row.sources[0])


def row_of(row: MeasurementRow, gpu: str | None = None) -> SpeedRow | None:
    """The row of constants that a plan for this run would take, on the GPU that the row names or on another name's."""
    chosen = chosen_row(row, gpu or gpu_of(row))
    return chosen.row if chosen else None


def chosen_row(row: MeasurementRow, gpu: str | None, *, elsewhere: bool = False) -> ChosenRow | None:
    patches = ("pcie-allreduce",) if one_shot(row.interconnect) else ()
    return choose_row(engine_of(row), version_of(row), _capability(gpu), _wires(row), patches, elsewhere=elsewhere)


def version_of(row: MeasurementRow) -> str | None:
    """The release that the author names; None for an image or a commit."""
    stated = _RELEASE.search(row.engine_version or "")
    return stated[0] if stated else None


@cache
def model_record(name: str, artifact: str | None = None) -> Model:
    """The artifact of that name, else the native one."""
    known = records(catalog.model(name))
    return next((model for model in known if model.source == artifact), known[0])


@cache
def _records(model: str) -> tuple[Model, ...]:
    row = catalog.find_model(model) or catalog.find_model(model.rpartition("/")[2])
    return records(row) if row is not None else ()


def model_of(row: MeasurementRow) -> Model | None:
    """The artifact that the author names, else one of the same format."""
    artifacts = _records(row.model)
    named = f"{row.artifact or ''} {row.quant or ''}".lower()
    exact = next((model for model in artifacts if model.source.lower() in named.split()), None)
    if exact is not None:
        return exact
    if layers_of(engine_of(row)) is not None:
        listed = next((model for model in artifacts if _has_quant(named, model)), None)
        return listed or build_by_name((row.artifact or "").partition(" ")[0])
    native = row.artifact is None
    for scheme in _SCHEMES:
        if any(word in named for word in scheme):
            stored = next((model for model in artifacts if _stored_as(model, scheme)), None)
            return stored or build_by_name((row.artifact or "").partition(" ")[0])
    return artifacts[0] if native and artifacts else None


def _has_quant(named: str, model: Model) -> bool:
    quant = model.source.rpartition(":")[2].lower().removesuffix("_moe")
    return model.format == "gguf" and re.search(rf"(?:^|[ -]){re.escape(quant)}(?: |$)", named) is not None


def _stored_as(model: Model, scheme: Iterable[str]) -> bool:
    return any(word in (model.quantisation or "bf16").lower() for word in scheme)


def gpu_row_figures(gpu: GpuRow) -> GpuFigures:
    bandwidth = gpu.memory_bandwidth_loaded_gb_s or gpu.memory_bandwidth_gb_s
    return GpuFigures(
        bandwidth=float(bandwidth.value or 0) * 1e9,
        multiprocessors=int(gpu.sm_count.value or 1),
        bf16_flops=float(gpu.bf16_tflops.value or 0) * 1e12,
    )


def rank_sample(row: MeasurementRow, kernels: Kernels, model: Model, gpu: GpuRow) -> RankSample | None:
    """A run of an engine whose ranks divide every layer, on this GPU and by these kernels."""
    spread, rate = _PARALLEL.search(row.parallelism or ""), _rate(row)
    if spread is None or rate is None or row.concurrency is None or row.context_tokens is None:
        return None
    decodes = row.decode_tokens_per_second is not None
    speculates = decodes and row.speculation not in (None, "none")
    guesses = int(k[1]) if speculates and (k := _GUESSES.search(row.speculation or "")) else 0
    accepted = _acceptance(row, guesses)
    if speculates and (accepted is None or not guesses):
        return None
    answer = answered_tokens(row.notes) if row.kind in (None, "aggregate") else None
    output = answer or 1
    whole = _WHOLE_EXPERTS.search(row.parallelism or "") is not None
    parallel = Parallel(tensor=int(spread[1]), decode_context=int(spread[2] or 1), expert=whole)
    return RankSample(
        id=row.id,
        work=rank_work(model, parallel, _dtype(row.kv_dtype), sparse=kernels.sparse_attention),
        silicon=gpu_row_figures(gpu),
        kernels=kernels,
        batch=min(row.concurrency, _held(row, output)) if answer else row.concurrency,
        context=row.context_tokens,
        tokens_per_second=1e3 * row.concurrency / row.tpot_ms if row.tpot_ms else rate,
        kind="prompt" if not decodes else "served" if answer else "decode",
        output_tokens=output,
        input_tokens=int(prompt[1]) if answer and (prompt := _INPUT.search(row.notes or "")) else 0,
        guesses=guesses,
        acceptance=accepted,
    )


def _layer_sample(row: MeasurementRow, constants: SpeedRow, model: Model, gpu: str | None) -> LayerSample | None:
    host, rate = _host(row, gpu), _rate(row)
    if host is None or rate is None or row.speculation not in (None, "none"):
        return None
    layers = len({line.layer for line in model.weights if line.group == "routed_experts"})
    on_gpus = layers if row.gpu_expert_layers is None else row.gpu_expert_layers
    if row.gpu != "none" and gpu is None:
        return None
    placed = Layered(
        work=rank_work(model, Parallel(), _dtype(row.kv_dtype)),
        silicon=gpu_row_figures(catalog.gpu(gpu)) if gpu else None,
        host=host,
        expert_layers=layers,
        host_layers=layers - on_gpus if gpu else layers,
    )
    context = float(row.context_tokens or 0)
    if row.prefill_tokens_per_second is None:
        return LayerSample(row.id, placed, constants.kernels, context, rate, batch=row.concurrency or 1)
    stated = _UBATCH.search(row.notes or "")
    ubatch = int(stated[1]) if stated else 512
    # llama-batched-bench has prompts of `context_tokens`; llama-bench and -sweep-bench one ubatch behind as many.
    whole = int(context) if "batched" in (row.notes or "") and context else None
    return LayerSample(
        row.id, placed, constants.kernels, 0.0 if whole else context, rate,
        ubatch=min(ubatch, whole or ubatch), prompt_tokens=whole,
    )  # fmt: skip


def _rate(row: MeasurementRow) -> float | None:
    return row.decode_tokens_per_second or row.prefill_tokens_per_second


def _host(row: MeasurementRow, gpu: str | None) -> HostFigures | None:
    """None if the run leans on system RAM of which the author does not say how fast it is."""
    slot = _PCIE_X16.get(catalog.gpu(gpu).pcie_generation or 5) if gpu else None
    if not row.host_bandwidth:
        return HostFigures(1.0, False, slot) if gpu and row.gpu_expert_layers is None else None
    if (figure := gb_s(row.host_bandwidth)) is None:
        return None
    return HostFigures(figure * 1e9, row.host_bandwidth.partition(" ")[2] == "measured", slot)


def _acceptance(row: MeasurementRow, guesses: int) -> float | None:
    if row.acceptance is not None or not row.accepted_length or not guesses:
        return row.acceptance
    return (row.accepted_length - 1) / guesses


def _wires(row: MeasurementRow) -> Interconnect:
    spread = _PARALLEL.search(row.parallelism or "")
    if spread is None or spread[1] == "1":
        return "one"
    return "pcie" if "PCIe" in (row.interconnect or "") or row.gpu.startswith(("rtx", "RTX")) else "nvlink"


def _held(row: MeasurementRow, output: int) -> int:
    """Requests that the pool held at once: the rest waited."""
    if row.kv_tokens is None or row.context_tokens is None:
        return row.concurrency or 1
    return max(1, row.kv_tokens // (row.context_tokens + output))


def _dtype(stated: str | None) -> str:
    text = stated or ""
    if "fp8" in text:
        return "fp8"
    return text if text in ("bf16", "f16", "q8_0") else "bf16"

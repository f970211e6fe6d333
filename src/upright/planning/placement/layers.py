"""Plans for engines that put whole layers on devices, and experts where there is memory left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from upright.base.units import format_memory, format_tokens
from upright.engines.facets.budget import Margin
from upright.engines.facets.spread import Layers
from upright.engines.tensor_types import engine_loading_fork_types
from upright.facts.catalog import recorded_architectures
from upright.facts.catalog.rows.memory import End, OverheadRow
from upright.facts.records.base import Basis, Figure
from upright.facts.records.box import Box
from upright.facts.records.model import MlaAttention, Model
from upright.facts.records.plan import DeviceBudget, ExpertPlace, Goal, LedgerLine, Note, Objection, Plan
from upright.planning.memory.buffers import COMPUTE_BAND, compute_buffer, padded_context
from upright.planning.memory.cache_record import cache_record
from upright.planning.memory.file_sizes import largest_size, smallest_size
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage
from upright.planning.memory.overhead import RESTART_SPREAD, overheads
from upright.planning.memory.weights import layer_bytes
from upright.planning.placement.asked_layers import layers_asked, place_objection
from upright.planning.placement.devices import (
    HOST,
    HOST_RESERVE,
    LEAST_HOST_BYTES,
    RAM_UNSAID,
    gpus,
    host_bytes,
    ram_not_specified,
)
from upright.planning.placement.engine_support import gpu_architectures, packing_of, refuses_types, unrecorded_class
from upright.planning.placement.placement import (
    DeviceLoad,
    Overheads,
    PlacementJob,
    budget_of,
    capacity_tokens,
    feasible,
    place,
    shortfall_bytes,
)
from upright.planning.placement.plan_limits import exact_line, rounded_down, with_limits
from upright.planning.placement.unequal_gpus import by_memory, fastest_first, layer_places, one_kind

if TYPE_CHECKING:
    from upright.planning.memory.earlier_starts import EarlierStart, EarlierStarts

UBATCH_TOKENS = 512
# With experts offloaded to CPU every ubatch copies them to a GPU: one of twice the tokens nearly halves the time of a
# prompt. Its scratch takes the place of experts, which decode then reads from system RAM: at most a fifth more of them,
# or one layer. (Of Kimi K2 it is half a layer, a hundredth of decode; of gpt-oss-20b on 12 GB it is half of the model.)
HYBRID_UBATCH_TOKENS = (4096, 2048, 1024)
OFFLOADED_SHARE = 5
# With experts on the GPU every ubatch reads all of them once: four times the tokens, half the time of a prompt.
EXPERT_UBATCH_TOKENS = (2048, 1024)
# Its scratch may be a fortieth of a GPU: more would be taken from users.
UBATCH_SHARE = 40
# Far above any context, so that the search ends.
MOST_TOKENS = 2**26
_USUAL = Layers()


@dataclass(frozen=True)
class LayerCase:
    """Everything that decides the bytes."""

    box: Box
    model: Model
    goal: Goal
    engine: str
    margin: Margin
    version: str | None
    context_tokens: int
    dtype: str
    made_from: tuple[str, ...]
    ubatch_tokens: int = UBATCH_TOKENS
    lessons: EarlierStarts | None = None
    spread: Layers = _USUAL

    @property
    def storage(self) -> Storage:
        return Storage(self.engine, self.version)

    @property
    def size_by_type(self) -> bool:
        """Whether nobody read how large the file is, where builders of a type differ."""
        return self.model.basis == "derived" and not self.model.files and packing_of(self.model) is None

    @property
    def sizes(self) -> tuple[float, float]:
        """How large the file may be, in times of what is planned."""
        if not self.size_by_type:
            return 1.0, 1.0
        return smallest_size(self.model), largest_size(self.model)

    @cached_property
    def learned(self) -> EarlierStart | None:
        return self.lessons.learned(self.model.name, None, draft=self.goal.draft) if self.lessons else None

    @cached_property
    def rows(self) -> dict[str, OverheadRow]:
        overhead_rows = overheads(self.engine, self.version)
        return {row.term: self.learned.row(row) if self.learned else row for row in overhead_rows}

    @cached_property
    def scratch_factor(self) -> float | None:
        """What the engine took for this model when it was last started, in times of the formula."""
        seen = self.learned.scratch if self.learned else None
        if seen is None or self.learned is None or seen.measured_bytes.value is None:
            return None
        then = self.learned.residuals
        formula = compute_buffer(
            self.model.architecture,
            ubatch_tokens=then.ubatch_tokens or UBATCH_TOKENS,
            context_tokens=then.context_tokens,
            scratch=self.spread.scratch,
        ).bytes
        if "upload" in seen.of and (share := self.rows["upload"].share) is not None:
            formula += int(_expert_layer(self.model) * share.best)
        return float(seen.measured_bytes.value / formula)


class _Bands(NamedTuple):
    low: Overheads
    best: Overheads
    high: Overheads


def plan_in_layers(case: LayerCase) -> Plan:
    """The plan, with objections if it does not fit."""
    bands = _bands(case)
    roomiest = _by_memory(case, _job(case), bands)
    job, sure = _placed(case, bands)
    case = replace(case, ubatch_tokens=job.ubatch_tokens)
    shape, limit = job.shape, case.model.architecture.context_limit_tokens
    most = max(limit or 0, case.context_tokens) * max(16, case.goal.users)
    # What another context could have: it would be planned with a shorter ubatch if need be.
    planned, counted = padded_context(case.context_tokens) * case.goal.users, roomiest
    on_gpus = job.gpus and job.experts and not sure[-1].expert_layers and feasible(job, sure)
    if on_gpus:  # and there they stay; what a longer ubatch may take is left out, whether it does or not
        rooms = tuple(budget - budget // UBATCH_SHARE for budget in roomiest.gpu_budgets)
        counted = replace(roomiest, gpu_budgets=rooms, host_budget=sure[-1].bytes)
    low = max(capacity_tokens(counted, bands.high, most=min(most, MOST_TOKENS)), planned if on_gpus else 0)
    best = max(low, capacity_tokens(counted, bands.best, most=min(most, MOST_TOKENS)))
    plan = Plan(
        made_from=case.made_from,
        engine=case.engine,
        engine_version=case.version,
        goal=case.goal,
        model=case.model.name,
        box=case.box.name,
        context_tokens=case.context_tokens,
        ubatch_tokens=case.ubatch_tokens,
        expert_places=_expert_places(sure) if job.gpus else (),
        layer_places=layer_places(job.gpus, job.layer_counts),
        budgets=_budgets(case, job),
        ledger=tuple(line for load in sure for line in _lines(case, load, bands)),
        kv=cache_record(
            case.model,
            case.dtype,
            shape,
            case.storage,
            capacity_tokens=best,
            low_tokens=low,
            high_tokens=best,
            planned_tokens=planned,
        ),
        objections=_objections(case, job, sure, low, bands),
        notes=_notes(case, job, sure),
    )
    if objection := place_objection(plan, len(job.experts), whole=_whole(case, bands)):
        plan = plan.model_copy(update={"objections": (objection, *plan.objections)})
    alone = low
    if case.goal.users > 1 or counted is not roomiest:
        alone = capacity_tokens(replace(roomiest, users=1), bands.high, most=min(most, MOST_TOKENS))
    return with_limits(plan, case.model, longest_tokens=alone)


def _whole(case: LayerCase, bands: _Bands) -> bool:
    """Whether experts were placed by wish, though the GPUs hold all of them."""
    if case.goal.place is None:
        return False
    job, sure = _placed(replace(case, goal=case.goal.model_copy(update={"place": None})), bands)
    return not sure[-1].expert_layers and feasible(job, sure)


def _placed(case: LayerCase, bands: _Bands) -> tuple[PlacementJob, tuple[DeviceLoad, ...]]:
    """Placed so that even the high ends fit: everything on the GPUs, or else the longest ubatch that spares decode."""
    if asked := case.goal.batched_tokens:
        case = replace(case, ubatch_tokens=asked)
    job = _split(case, _job(case), bands)
    loads = place(job, case.context_tokens, bands.high)
    if asked:
        return job, loads
    on_host = bool(loads[-1].expert_layers)
    if not job.gpus or not (on_host or job.experts):
        return job, loads
    for ubatch in HYBRID_UBATCH_TOKENS if on_host else EXPERT_UBATCH_TOKENS:
        longer = _split(case, _job(replace(case, ubatch_tokens=ubatch)), bands)
        tried = place(longer, case.context_tokens, bands.high)
        spared = _decode_spared if on_host else _users_spared
        if feasible(longer, tried) and spared(longer, loads, tried):
            return longer, tried
    return job, loads


def _split(case: LayerCase, job: PlacementJob, bands: _Bands) -> PlacementJob:
    """Of GPUs of several kinds: as much as fits on the fast ones; with experts in system RAM by memory."""
    if one_kind(job.gpus):
        return job
    return fastest_first(job, case.context_tokens, bands.high) or _by_memory(case, job, bands)


def _by_memory(case: LayerCase, job: PlacementJob, bands: _Bands) -> PlacementJob:
    """As another context would be planned, which decides how long one can be."""
    return job if one_kind(job.gpus) else replace(job, layer_counts=by_memory(job, case.context_tokens, bands.high))


def _decode_spared(_: PlacementJob, before: tuple[DeviceLoad, ...], tried: tuple[DeviceLoad, ...]) -> bool:
    """Whether the longer ubatch leaves about as many experts on the GPUs."""
    least = len(before[-1].expert_layers)
    return len(tried[-1].expert_layers) - least <= max(1, least // OFFLOADED_SHARE)


def _users_spared(job: PlacementJob, before: tuple[DeviceLoad, ...], tried: tuple[DeviceLoad, ...]) -> bool:
    """Whether everything stays on the GPUs, and the longer ubatch takes nothing that users would miss."""
    grown = max(after.compute - load.compute for load, after in zip(before, tried, strict=True))
    return not tried[-1].expert_layers and grown * UBATCH_SHARE <= min(job.gpu_budgets)


def _job(case: LayerCase) -> PlacementJob:
    devices, ubatch = gpus(case.box), case.ubatch_tokens
    shape = cache_shape(case.model.architecture, case.dtype, storage=case.storage, window_slack_tokens=ubatch)
    offered = int(int(host_bytes(case.box).value or LEAST_HOST_BYTES) * (1 - HOST_RESERVE if devices else 1))
    if any(device.unified for device in devices):
        offered = 0
    budgets = tuple(max(0, device.cuda_bytes - case.margin.bytes) for device in devices)
    return PlacementJob(
        case.model, shape, devices, budgets, offered, case.goal.users, ubatch, case.spread.scratch,
        asked_layers=layers_asked(case.goal.place),
    )  # fmt: skip


def _bands(case: LayerCase) -> _Bands:
    rows, expert_layer = case.rows, _expert_layer(case.model)
    unified = any(device.unified for device in gpus(case.box))
    share = rows["upload"].share
    assert share is not None
    taught = 1.0 if case.scratch_factor is None else case.scratch_factor

    def end(name: End, scratch: float, size: float) -> Overheads:
        return Overheads(
            runtime=rows["runtime"].bytes(name),
            upload=int(expert_layer * getattr(share, name) * taught),
            process=0 if unified else rows["process"].bytes(name),
            compute_factor=scratch,
            size_factor=size,
        )

    low, high = COMPUTE_BAND if case.scratch_factor is None else (1 - RESTART_SPREAD, 1 + RESTART_SPREAD)
    smallest, largest = case.sizes
    return _Bands(end("low", low * taught, smallest), end("best", taught, 1.0), end("high", high * taught, largest))


def _expert_layer(model: Model) -> int:
    """Bytes of the routed experts of the largest layer."""
    return max(layer_bytes(model, ("routed_experts",)).values(), default=0)


def _budgets(case: LayerCase, job: PlacementJob) -> tuple[DeviceBudget, ...]:
    budgets = [
        DeviceBudget(
            device=device.name,
            capacity_bytes=budget,
            basis=device.basis,
            why=(
                f"{_whose(case.box)} {format_memory(device.cuda_bytes)} less a margin of "
                f"{format_memory(case.margin.bytes)}"
            ),
        )
        for device, budget in zip(job.gpus, job.gpu_budgets, strict=True)
    ]
    known = host_bytes(case.box)
    budgets.append(
        DeviceBudget(
            device=HOST,
            capacity_bytes=job.host_budget,
            basis=known.basis or "assumed",
            why=_host_words(job, known),
        )
    )
    return tuple(budgets)


def _whose(box: Box) -> str:
    """Who says how much memory there is."""
    vendors = gpu_architectures(box)
    if "apple" in vendors:
        return "macOS lets the GPU have"
    return "the driver's" if "amd" in vendors else "CUDA's"


def _host_words(job: PlacementJob, known: Figure) -> str:
    source = known.source
    if known.value is None:
        return RAM_UNSAID
    if job.unified:
        return "the GPU shares the machine's memory: it is counted there"
    if job.gpus:
        return f"memory a new process can have, less {HOST_RESERVE:.0%} for the system ({source or 'unknown'})"
    return f"memory a new process can have ({source or 'unknown'})"


def _lines(case: LayerCase, load: DeviceLoad, bands: _Bands) -> list[LedgerLine]:
    basis: Basis = case.model.basis
    layers = len(load.expert_layers)
    users = f"{case.goal.users} x {format_tokens(case.context_tokens)} tokens"
    ledger_lines = [
        _stored(load.device, "weights", load.weights, "every tensor as stored, experts aside", basis, bands)
    ]
    if load.experts:
        why = f"routed experts of {layers} layers"
        ledger_lines.append(_stored(load.device, "experts", load.experts, why, basis, bands))
    if load.cache:
        ledger_lines.append(
            exact_line(load.device, "kv_cache", load.cache, f"{users}, {case.dtype}, with the layers here")
        )
    if load.compute:
        ledger_lines.append(_scratch(case, load, bands))
    terms = [term for term in ("runtime", "upload", "process") if getattr(load, term)]
    ledger_lines += [_banded(case, load.device, term, bands) for term in terms]
    return [line for line in ledger_lines if line.bytes or line.high_bytes]


def _stored(device: str, term: str, largest: int, why: str, basis: Basis, bands: _Bands) -> LedgerLine:
    """Weights, with the ends of a size that nobody read."""
    high = bands.high.size_factor
    if high == 1.0:
        return exact_line(device, term, largest, why, basis)
    best = int(largest / high)
    low = int(best * bands.low.size_factor)
    why += "; the size follows from the type"
    return LedgerLine(device=device, term=term, bytes=best, low_bytes=low, high_bytes=largest, basis=basis, why=why)


def _scratch(case: LayerCase, load: DeviceLoad, bands: _Bands) -> LedgerLine:
    formula, basis = load.compute / bands.high.compute_factor, "derived"
    why = f"scratch for {case.ubatch_tokens:,} tokens at once: {_scratch_words(case)}"
    if case.learned and case.scratch_factor is not None:
        why, basis = f"{why}; {case.scratch_factor:.2f} times that, {case.learned.source}", "measured"
    return LedgerLine(
        device=load.device,
        term="compute",
        bytes=int(formula * bands.best.compute_factor),
        low_bytes=int(formula * bands.low.compute_factor),
        high_bytes=load.compute,
        basis=basis,
        why=why,
    )


def _scratch_words(case: LayerCase) -> str:
    kept = case.spread.scratch
    latent = any(isinstance(kind, MlaAttention) for kind in case.model.architecture.attention)
    words = "logits, hidden states, mask" if kept.logits else "hidden states, mask"
    return f"{words}, scores, keys and values of every head" if kept.latent_scores and latent else words


def _banded(case: LayerCase, device: str, term: str, bands: _Bands) -> LedgerLine:
    row = case.rows[term]
    return LedgerLine(
        device=device,
        term=term,
        bytes=getattr(bands.best, term),
        low_bytes=getattr(bands.low, term),
        high_bytes=getattr(bands.high, term),
        basis=row.basis,
        why=f"{row.why} (overheads/{row.id})",
    )


def _expert_places(loads: tuple[DeviceLoad, ...]) -> tuple[ExpertPlace, ...]:
    return tuple(ExpertPlace(device=load.device, layers=load.expert_layers) for load in loads if load.expert_layers)


def _objections(
    case: LayerCase, job: PlacementJob, loads: tuple[DeviceLoad, ...], low: int, bands: _Bands
) -> tuple[Objection, ...]:
    objections = []
    for load in loads:
        short = shortfall_bytes(job, load)
        if short <= 0:
            continue
        if load.device == HOST and host_bytes(case.box).value is None:
            objections.append(ram_not_specified(short + budget_of(job, HOST)))
            continue
        where = "system RAM" if load.device == HOST else load.device
        offered, expected = budget_of(job, load.device), sum(line.bytes for line in _lines(case, load, bands))
        message = f"{format_memory(short)} too much for {format_memory(offered)} of {where}"
        if not offered:
            message = f"{format_memory(short)} more than the memory that GPU and system share"
        if expected <= offered:
            message += f" at the upper ends of the figures; by the best ones it takes {format_memory(expected)}"
        largest = rounded_down(low // case.goal.users, 256)
        objections.append(
            Objection(
                code="does-not-fit",
                message=message,
                device=load.device,
                short_bytes=short,
                remedy=f"--context {largest}" if largest else None,
            )
        )
    if refuses_types(case.engine, case.model):
        architecture = case.model.architecture.name
        what = f"has tensor types that mainline {case.engine} refuses"
        if not recorded_architectures.has(case.engine, architecture):
            what = f"is a {architecture}, which no {case.engine} that was recorded has"
        objections.append(
            Objection(
                code="ik-only-types",
                message=f"{case.model.name} {what}",
                remedy=f"--engine {other}" if (other := engine_loading_fork_types()) else None,
            )
        )
    return tuple(objections)


def _notes(case: LayerCase, job: PlacementJob, loads: tuple[DeviceLoad, ...]) -> tuple[Note, ...]:
    notes = []
    if job.gpus and loads[-1].expert_layers:
        kept = sum(len(load.expert_layers) for load in loads[:-1])
        notes.append(
            Note(
                code="hybrid",
                message=(
                    f"experts of {kept} layers on the GPUs, of {len(loads[-1].expert_layers)} in system RAM: "
                    f"{format_memory(loads[-1].experts)}, pinned while the engine runs"
                ),
            )
        )
    if case.size_by_type:
        smaller, larger = 1 - case.sizes[0], case.sizes[1] - 1
        message = (
            f"sizes follow from the type and the model's shapes: builds of one type were {100 * smaller:.2g} % smaller "
            f"to {100 * larger:.2g} % larger, which is left room for"
        )
        notes.append(Note(code="size-by-type", message=message, remedy="name the file, and its header is read"))
    if unrecorded := unrecorded_class(case.engine, case.model):
        notes.append(unrecorded)
    if job.shape.unknown:
        notes.append(Note(code="lower-bound", message=f"not in the headers: {', '.join(job.shape.unknown)}"))
    return tuple(notes)

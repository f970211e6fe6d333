"""Plans for engines whose ranks each take a share of a GPU.

The engine fills the fraction with cache: what is left of it after weights and overheads is the pool. The plan's ledger
holds what the goal needs of the pool; the rest is headroom.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from upright.base.units import format_memory, format_tokens
from upright.engines.constraints.situation import expert_format
from upright.engines.facets.budget import GpuShare
from upright.engines.facets.spread import Ranks
from upright.engines.model_settings import LEAST_SEQUENCES, most_sequences
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.rows.memory import End, OverheadRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import DeviceBudget, Goal, LedgerLine, Note, Objection, Parallel, Plan
from upright.planning.memory.cache_record import cache_record
from upright.planning.memory.kvcache import BATCHED_TOKENS, CacheShape, cache_shape, copies
from upright.planning.memory.layouts import Storage
from upright.planning.memory.overhead import overhead_line, overheads, share_line
from upright.planning.memory.pool_capacity import RankCache, longest_tokens, most_requests, pool_tokens, rank_cache
from upright.planning.memory.reserve import ReserveCase, kinds_of, with_causes
from upright.planning.memory.weights import RankWeights, rank_weights
from upright.planning.placement import gpu_memory_utilization as fractions
from upright.planning.placement.devices import UNIFIED_RESERVE, Device, host_bytes, same_kind
from upright.planning.placement.expert_offload import ExpertOffload
from upright.planning.placement.plan_limits import bounded_line, exact_line, with_limits
from upright.planning.placement.unequal_gpus import in_ratio, layer_places

if TYPE_CHECKING:
    from upright.planning.memory.earlier_starts import EarlierStarts

DRAFT_LAYERS = 1
ENDS: tuple[End, ...] = ("best", "low", "high")
PADDING = "padded_weights"


@dataclass(frozen=True)
class RankCase:
    """Everything that decides the bytes of every rank."""

    box: Box
    model: Model
    goal: Goal
    engine: str
    ranks: Ranks
    share: GpuShare
    version: str | None
    gpus: tuple[Device, ...]
    parallel: Parallel
    context_tokens: int
    dtype: str
    fraction: float
    fraction_why: str
    made_from: tuple[str, ...]
    lessons: EarlierStarts | None = None
    gpu_experts: int = 0
    """Routed experts of each layer on the GPUs, where the engine keeps them in system RAM."""
    sequences: int = LEAST_SEQUENCES
    """Requests at once that a replica is asked for."""

    @cached_property
    def offload(self) -> ExpertOffload | None:
        """None if every expert lies on the GPUs."""
        facet = self.ranks.host_experts
        return ExpertOffload(self.box, self.model, facet) if facet and self.model.architecture.experts else None

    @cached_property
    def shape(self) -> CacheShape:
        layers = DRAFT_LAYERS if self.goal.draft else 0
        return cache_shape(
            self.model.architecture,
            self.dtype,
            storage=self.storage,
            draft_layers=layers,
            batched_tokens=self.batched_tokens,
            stages=self.parallel.pipeline,
        )

    @property
    def storage(self) -> Storage:
        return Storage(self.engine, self.version, self.gpus[0].capability)

    @cached_property
    def rows(self) -> dict[str, OverheadRow]:
        capability = self.gpus[0].capability
        row = row_of(self.model)
        architecture = self.model.architecture
        known = overheads(
            self.engine,
            self.version,
            capability=capability,
            draft=self.goal.draft,
            model=row.id if row else None,
            kinds=kinds_of(architecture, self.model.quantisation),
        )
        asked = ReserveCase(architecture, self.parallel, self.batched_tokens, self.sequences, self.goal.draft)
        overhead_rows = with_causes({row.term: row for row in known}, asked).values()
        if self.lessons and (learned := self.lessons.learned(self.model.name, self.parallel, draft=self.goal.draft)):
            return {row.term: learned.row(row) for row in overhead_rows}
        return {row.term: row for row in overhead_rows}

    @cached_property
    def stages(self) -> tuple[RankWeights, ...]:
        return rank_weights(
            self.offload.without_experts() if self.offload else self.model,
            tensor=self.parallel.tensor,
            pipeline=self.parallel.pipeline,
            data=self.parallel.data,
            vision=self.ranks.vision,
            draft=self.goal.draft,
            whole_experts=self.parallel.expert,
            padded=bool(self.share.padded_experts) and expert_format(self.model)[0] in self.share.padded_experts,
            layer_counts=self.layer_counts,
        )

    @cached_property
    def layer_counts(self) -> tuple[int, ...]:
        """Layers of each stage, where stages are GPUs of several kinds: in the ratio of what each may use."""
        if same_kind(self.gpus) or self.parallel.pipeline != len(self.gpus):
            return ()
        outer = [0] * len(self.gpus)
        for line in self.model.weights:
            if line.layer is None:
                outer[0 if line.group in ("embedding", "vision") else -1] += line.bytes
        taken = self.rows["runtime"].bytes("best")
        rooms = [int(self.fraction * gpu.cuda_bytes) - taken - more for gpu, more in zip(self.gpus, outer, strict=True)]
        return in_ratio(self.model.architecture.layers, rooms)

    @cached_property
    def tables_on_host(self) -> bool:
        """Whether lookup tables lie in system RAM, where that is another memory than the GPUs'."""
        row = self.storage.row("tables", "*")
        return row is not None and row.on_host and not self.gpus[0].unified

    @cached_property
    def sharing(self) -> int:
        """Ranks of a DCP group, as far as the engine has DCP and groups divide the ranks."""
        able = self.ranks.sharing.able(self.version)
        return gcd(self.parallel.tensor, self.parallel.decode_context) if able else 1

    @cached_property
    def users(self) -> int:
        """Of one replica of attention."""
        return -(-self.goal.users // self.parallel.data)

    def asking(self, sequences: int) -> RankCase:
        """The same for so many requests at once, of which neither weights nor a token's bytes know."""
        other = replace(self, sequences=sequences)
        other.__dict__.update({name: self.__dict__[name] for name in ("stages", "shape") if name in self.__dict__})
        return other

    @property
    def batched_tokens(self) -> int:
        """Computed at once."""
        return self.goal.batched_tokens or BATCHED_TOKENS

    @property
    def need_tokens(self) -> int:
        """In one replica's cache."""
        return self.context_tokens * self.users


class _Rank(NamedTuple):
    """One GPU's ledger."""

    device: Device
    budget: DeviceBudget
    fixed: tuple[LedgerLine, ...]
    outside: tuple[LedgerLine, ...]
    held: RankCache

    @property
    def token_bytes(self) -> Fraction:
        return self.held.token_bytes

    @property
    def pool_bytes(self) -> int:
        return self.budget.capacity_bytes - sum(ledger_line.bytes for ledger_line in self.fixed)


def plan_on_ranks(case: RankCase) -> Plan:
    """The plan, with objections if it does not fit."""
    case = _with_sequences(_with_gpu_experts(case))
    ranks = _ranks(case)
    kinds = _kinds(ranks)
    smallest = min(kinds, key=lambda rank: (_tokens(case, rank, "low"), rank.pool_bytes))
    best, low, high = (min(_tokens(case, rank, end) for rank in kinds) for end in ENDS)
    roomiest = _kinds(_ranks(replace(case, gpu_experts=0))) if case.gpu_experts else kinds
    if case.offload and case.gpu_experts < case.offload.count:  # experts fill the rest
        best, low, high = (min(end, case.need_tokens) for end in (best, low, high))
    shape, replicas = case.shape, case.parallel.data
    ledger = [ledger_line for rank in ranks for ledger_line in (*rank.fixed, *_cache_lines(case, rank), *rank.outside)]
    ledger += _on_host(case)
    plan = Plan(
        made_from=case.made_from,
        engine=case.engine,
        engine_version=case.version,
        goal=case.goal,
        model=case.model.name,
        box=case.box.name,
        context_tokens=case.context_tokens,
        parallel=case.parallel,
        layer_places=layer_places(case.gpus, case.layer_counts),
        memory_fraction=case.fraction,
        ubatch_tokens=case.batched_tokens,
        expert_places=case.offload.places() if case.offload else (),
        budgets=(*(rank.budget for rank in ranks), *((case.offload.budget(),) if case.offload else ())),
        ledger=tuple(ledger),
        kv=cache_record(
            case.model,
            case.dtype,
            shape,
            case.storage,
            copies=copies(shape, case.parallel.tensor, case.sharing),
            capacity_tokens=replicas * best,
            low_tokens=replicas * low,
            high_tokens=replicas * high,
            planned_tokens=case.context_tokens * case.goal.users,
        ),
        objections=_objections(case, ranks, smallest, low),
        notes=_notes(case, smallest, best, low),
    )
    longest = min(longest_tokens(rank.held, _pool_bytes(rank, case, "low")) for rank in roomiest)
    return with_limits(plan, case.model, longest_tokens=longest, most_users=replicas * _most_users(case, smallest, low))


def _with_sequences(case: RankCase) -> RankCase:
    """With as many requests at once as the recipe asks for, of each replica.

    Each of them takes memory that the cache then lacks: what fits beside the fewest is a few too many, never too few.
    """
    few = case.asking(max(case.users, LEAST_SEQUENCES))
    if case.goal.sequences is not None or "captures" not in case.rows:
        return few if case.goal.sequences is None else case.asking(-(-case.goal.sequences // case.parallel.data))
    rank, low = _least_room(few)
    return case.asking(most_sequences(few.sequences, _most_users(few, rank, low)))


def _least_room(case: RankCase) -> tuple[_Rank, int]:
    """Of one GPU of each stage, or of all where they differ, the one that holds the fewest tokens, and these."""
    step = case.parallel.tensor if same_kind(case.gpus) else 1
    held = [(_tokens(case, rank, "low"), index, rank) for index, rank in enumerate(_ranks(case, step))]
    low, _, rank = min(held, key=lambda each: each[:2])
    return rank, low


def _most_users(case: RankCase, rank: _Rank, low: int) -> int:
    """Of one replica, at the context that is asked for: no request lies in two."""
    most = most_requests(rank.held, _pool_bytes(rank, case, "low"), case.context_tokens)
    whole = low // case.context_tokens
    return whole if most is None else min(whole, most)


def _with_gpu_experts(case: RankCase) -> RankCase:
    """So many of each layer as the GPUs hold beside the cache that is asked for, at its lower band."""
    if case.offload is None:
        return case
    band = case.rows["pool-band"].share
    assert band is not None
    room = min(
        rank.pool_bytes - int(sum(line.bytes for line in _cache_lines(case, rank)) / band.low)
        for rank in _kinds(_ranks(case))
    )
    return replace(case, gpu_experts=case.offload.most_on_gpus(room, case.parallel.tensor))


def _kinds(ranks: tuple[_Rank, ...]) -> tuple[_Rank, ...]:
    """The first of each kind: most ranks have the same bytes."""
    kinds: dict[object, _Rank] = {}
    for rank in ranks:
        terms = tuple((line.bytes, line.low_bytes, line.high_bytes) for line in rank.fixed)
        kinds.setdefault((id(rank.held), rank.budget.capacity_bytes, terms), rank)
    return tuple(kinds.values())


def _ranks(case: RankCase, step: int = 1) -> tuple[_Rank, ...]:
    block = case.share.block_tokens * case.sharing

    @cache
    def held_in(layers: int) -> RankCache:
        """All ranks of a stage hold the same."""
        depth = Fraction(layers, case.model.architecture.layers)
        tensor = case.parallel.tensor
        return rank_cache(case.shape, case.storage, tensor=tensor, sharing=case.sharing, depth=depth, block=block)

    found = []
    for index, device in list(enumerate(case.gpus))[::step]:
        stage = case.stages[index // case.parallel.tensor % case.parallel.pipeline]
        held = held_in(stage.layers)
        fixed = _fixed(case, device, stage)
        runtime = next(found.bytes for found in fixed if found.term == "runtime")
        budget = fractions.budget(case.share, device, case.fraction, case.fraction_why, runtime)
        found.append(_Rank(device, budget, fixed, _outside(case, device), held))
    return tuple(found)


def _fixed(case: RankCase, device: Device, stage: RankWeights) -> tuple[LedgerLine, ...]:
    """What the fraction must hold beside the pool."""
    tensor, basis = case.parallel.tensor, case.model.basis
    lines = [exact_line(device.name, "weights", stage.divided_bytes, _divided_words(case.parallel), basis)]
    if stage.replicated_bytes:
        why = "on every rank: projections into the latent space, router, norms, indexer"
        lines.append(exact_line(device.name, "replicated_weights", stage.replicated_bytes, why, basis))
    if stage.unsure_bytes:
        why = "tensors with names and shapes that nobody knows: on every rank at most, divided at least"
        lines.append(bounded_line(device.name, "unclassed_weights", stage.unsure_bytes, tensor, why, basis))
    if stage.table_bytes and not case.tables_on_host:
        why = f"1/{tensor} of the lookup tables; an engine that can keep them in system RAM needs none of it here"
        lines.append(exact_line(device.name, "tables", stage.table_bytes, why, basis))
    if case.offload:
        lines += case.offload.on_gpu(device.name, case.gpu_experts, tensor)
    if stage.absorbed_bytes:
        why = "second copies of kv_b_proj that MLA backends make after loading"
        lines.append(exact_line(device.name, "absorbed_weights", stage.absorbed_bytes, why))
    if stage.padding.bytes:
        lines.append(
            LedgerLine(
                device=device.name,
                term=PADDING,
                bytes=stage.padding.bytes,
                low_bytes=0,
                high_bytes=stage.padding.bytes,
                basis="derived",
                why=stage.padding.why,
            )
        )
    rows = case.rows
    if "scales" in rows and stage.expert_bytes:
        lines.append(share_line(rows["scales"], device.name, stage.expert_bytes))
    terms = ["runtime", "draft"] if case.goal.draft else ["runtime"]
    if case.share.graphs_counted(case.version):
        terms.append("graphs")
    return (*lines, *(overhead_line(rows[term], device.name) for term in terms if term in rows))


def _divided_words(parallel: Parallel) -> str:
    if parallel.data > 1:
        return f"1/{parallel.tensor * parallel.data} of the routed experts, 1/{parallel.tensor} of what else is divided"
    return f"1/{parallel.tensor} of what tensor parallelism divides"


def _outside(case: RankCase, device: Device) -> tuple[LedgerLine, ...]:
    """What comes on top of the fraction."""
    if "graphs" in case.rows and not case.share.graphs_counted(case.version):
        return (overhead_line(case.rows["graphs"], device.name, "graphs_outside"),)
    return ()


def _on_host(case: RankCase) -> tuple[LedgerLine, ...]:
    """The engine's processes; and the system and its page cache, where the GPU has no memory of its own."""
    process, device = overhead_line(case.rows["process"], "host"), case.gpus[0]
    tables = sum(stage.table_bytes for stage in case.stages) * case.parallel.tensor
    if tables and case.tables_on_host:
        return process, exact_line("host", "tables", tables, "lookup tables, which the engine keeps in system RAM")
    if not device.unified:
        return (case.offload.on_host(), process) if case.offload else (process,)
    why = "the system and its page cache: GPU and system share one memory"
    return process, exact_line("host", "host_reserve", int(device.cuda_bytes * UNIFIED_RESERVE), why, "assumed")


def _cache_lines(case: RankCase, rank: _Rank) -> tuple[LedgerLine, ...]:
    """Tokens and windows of the users' sequences, and the states that the engine keeps of them."""
    users, held = case.users, rank.held
    request, states = held.request_bytes(case.context_tokens), held.state_bytes * held.states_kept
    why = f"{users} x {format_tokens(case.context_tokens)} tokens x {float(held.token_bytes):,.0f} B on this rank"
    if held.pages is not None and not held.why:
        blocks = held.pages.request_blocks(case.context_tokens)
        why = f"{users} x {blocks:,} blocks of {format_memory(held.pages.block_bytes)}, tokens in flight and all"
        return (exact_line(rank.device.name, "kv_cache", int(users * request), why),)
    lines = [exact_line(rank.device.name, "kv_cache", int(users * (request - states)), why)]
    if held.state_bytes:
        kept = f"{users} x {held.states_kept} states kept" if held.states_kept > 1 else f"{users} states"
        why = f"{kept}, {held.why}" if held.why else kept
        lines.append(exact_line(rank.device.name, "state", int(users * held.states_kept * held.state_bytes), why))
    return tuple(lines)


def _pool_bytes(rank: _Rank, case: RankCase, end: End) -> Fraction:
    """What is left for the cache: by the share that the pools of this engine and model were off, or by the terms'."""
    row = case.rows["pool-band"]
    assert row.share is not None
    pool = Fraction(rank.pool_bytes)
    if row.adds_terms and end != "best":
        off = {term.term: _off(term, end) for term in rank.fixed if term.term in case.rows or term.term == PADDING}
        spread = int(sum(gap * gap for gap in off.values()) ** 0.5)  # terms that know nothing of each other
        pool += spread if end == "high" else -spread
    return pool * Fraction(getattr(row.share, end)).limit_denominator(1000)


def _tokens(case: RankCase, rank: _Rank, end: End) -> int:
    return pool_tokens(rank.held, _pool_bytes(rank, case, end), case.users, case.context_tokens)


def _off(term: LedgerLine, end: End) -> int:
    return term.bytes - term.low_bytes if end == "high" else term.high_bytes - term.bytes


def _objections(case: RankCase, ranks: tuple[_Rank, ...], tightest: _Rank, low_tokens: int) -> tuple[Objection, ...]:
    objections = list(case.offload.objections(_on_host(case))) if case.offload else []
    if tightest.pool_bytes <= 0:
        objections.append(_weights_too_large(case, tightest, -tightest.pool_bytes))
    enough = low_tokens >= case.need_tokens or case.parallel.pipeline > case.model.architecture.layers
    if tightest.pool_bytes > 0 and not enough:
        asked = case.users * tightest.held.request_bytes(case.context_tokens) - _pool_bytes(tightest, case, "low")
        short = int(max(asked, (case.need_tokens - low_tokens) * tightest.token_bytes))
        objections.append(
            Objection(
                code="pool-too-small",
                message=(
                    f"{case.users} x {format_tokens(case.context_tokens)} tokens of context are asked for"
                    f"{' in each replica' if case.parallel.data > 1 else ''}, "
                    f"{format_tokens(low_tokens)} are sure to fit: {format_memory(short)} a GPU are missing"
                ),
                device=tightest.device.name,
                short_bytes=short,
            )
        )
    objections += _host_too_small(case)
    for rank in ranks[:1]:
        outside = (*rank.outside, *(_on_host(case) if rank.device.unified else ()))  # one memory, counted once
        spare = rank.device.cuda_bytes - rank.budget.capacity_bytes - sum(ledger_line.bytes for ledger_line in outside)
        if spare < 0:
            objections.append(
                Objection(
                    code="nothing-left-outside",
                    message=(
                        f"{_on_top(rank)} come on top of the fraction {case.fraction}: {format_memory(-spare)} missing"
                    ),
                    device=rank.device.name,
                    short_bytes=-spare,
                    remedy=f"--gpu-memory-utilization {max(0.5, case.fraction - 0.04):.2f}",
                )
            )
    return tuple(objections)


def _host_too_small(case: RankCase) -> list[Objection]:
    tables = sum(term.bytes for term in _on_host(case) if term.term == "tables")
    there = host_bytes(case.box).value
    if not tables or there is None or tables <= there:
        return []
    short = int(tables - there)
    message = f"{format_memory(tables)} of lookup tables are kept in system RAM, {format_memory(int(there))} are there"
    return [Objection(code="host-memory-too-small", message=message, device="host", short_bytes=short)]


def _on_top(rank: _Rank) -> str:
    return "the system and the engine's own processes" if rank.device.unified else "CUDA graphs"


def _weights_too_large(case: RankCase, rank: _Rank, short: int) -> Objection:
    return Objection(
        code="weights-too-large",
        message=(
            f"weights and overheads take {format_memory(rank.budget.capacity_bytes + short)} of each GPU, "
            f"{case.engine} may use {format_memory(rank.budget.capacity_bytes)}: {format_memory(short)} too much"
        ),
        device=rank.device.name,
        short_bytes=short,
    )


def _each(case: RankCase) -> int:
    """Ranks of one replica."""
    return case.parallel.tensor * case.parallel.data


def _by_itself(case: RankCase) -> Note | None:
    """A doubt for who starts the engine without the recipe: it may then admit more requests than the plan counts."""
    own = case.share.own_sequences(case.gpus[0].reported_bytes, case.gpus[0].capability)
    if case.goal.sequences is not None or "captures" not in case.rows or own <= case.sequences:
        return None
    if _least_room(case.asking(own))[1] >= case.need_tokens:
        return None
    message = (
        f"with {case.sequences} requests at once, as recipes ask for; with the engine's own {own:,} it may not fit"
    )
    return Note(code="tight", message=message)


def _notes(case: RankCase, rank: _Rank, best: int, low: int) -> tuple[Note, ...]:
    def tokens_with(more: int) -> int:
        pool = _pool_bytes(rank, case, "best") + more
        return pool_tokens(rank.held, pool, case.users, case.context_tokens)

    notes, runtime = [], next(line.bytes for line in rank.fixed if line.term == "runtime")
    unused = fractions.unused(case.engine, case.share, rank.device, case.fraction, rank.budget, runtime, tokens_with)
    if best and unused:
        notes.append(unused)
    if best and (little := fractions.little_outside(case.engine, case.share, rank.device, case.fraction, _each(case))):
        notes.append(little)
    if low < case.need_tokens <= best:
        message = f"by the best figure it fits, within the band of {100 * (1 - low / best):.0f} % it may not"
        notes.append(Note(code="tight", message=message))
    elif case.need_tokens <= low and (own := _by_itself(case)):
        notes.append(own)
    if tables := [term for term in _on_host(case) if term.term == "tables"]:
        message = f"{format_memory(tables[0].bytes)} of lookup tables lie in system RAM, beside the engine's processes"
        notes.append(Note(code="tables-in-ram", message=message))
    if case.shape.unknown:
        notes.append(Note(code="lower-bound", message=f"not in the headers: {', '.join(case.shape.unknown)}"))
    return tuple(notes)

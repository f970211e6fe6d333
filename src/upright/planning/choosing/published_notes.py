"""Notes on a plan that fits: the best published runs of the model on such a box, and what the plan turns off.

Nothing here decides anything: a published speed belongs to its own build, draft and context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from upright.base.units import format_tokens
from upright.engines import model_settings
from upright.facts import catalog
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.published_rates import PublishedRate, gpu_named, published_rates
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Note, Plan, Rate, Speed
from upright.planning.speed.predict import speed

BEST_PUBLISHED = "best-published"
TRADE = "dcp-trade"
THINKING_OFF = "thinking-off"
CROWD = "users-by-speed"
SOCKETS = "memory-by-socket"
BEARABLE_TOKENS_PER_SECOND = 10.0
"""Of each user, without `--min-speed`: about what a person reads."""
_ON_GITHUB = re.compile(r"https://github\.com/[^/]+/([^/]+)/(?:blob|tree)/[^/]+/(\S+)")
_SPREAD = re.compile(r"\bTP(\d+)(?: DCP(\d+))?")


def published_notes(plan: Plan, model: Model, box: Box) -> tuple[Note, ...]:
    """Best published result, the trade of DCP, thinking that the recipe turns off, users by speed, memory by socket."""
    row = row_of(model)
    results = list(_results(row, box)) if row and box.gpus and plan.parallel.nodes == 1 else []
    crowd, sockets = _crowd(plan, model, box), _sockets(plan, box)
    notes = (_best(results, plan), _trade(results, plan), _thinking(row, plan), crowd, sockets)
    return tuple(note for note in notes if note is not None)


def _results(row: ModelRow, box: Box) -> Iterator[PublishedRate]:
    own = catalog.find("gpus", box.gpus[0].row) if box.gpus[0].row else None
    if not isinstance(own, GpuRow):
        return
    names = {row.id, row.name, *row.aliases, *(artifact.repository for artifact in row.artifacts)}
    lower = frozenset(part.lower() for name in names for part in (name, name.rpartition("/")[2]))

    @cache
    def same(name: str) -> bool:
        """Of one silicon: server, workstation and Max-Q editions are one class."""
        other = gpu_named(name)
        return other is not None and _class(other) == _class(own)

    yield from published_rates(lower, same, len(box.gpus))


def _class(gpu: GpuRow) -> tuple[str, float, float | int | None]:
    return gpu.compute_capability, round(gpu.memory_bytes / 2**30), gpu.sm_count.value


def _best(results: Sequence[PublishedRate], plan: Plan) -> Note | None:
    """Of one request, or of all together where a batch is planned."""
    together = plan.goal.use == "batch" or plan.goal.users > 1
    rates = results if together else [seen for seen in results if seen.concurrency == 1] or results
    best = max(rates, key=lambda seen: seen.tokens_per_second, default=None)
    if best is None:
        return None
    requests = "1 request" if best.concurrency == 1 else f"{best.concurrency} requests together"
    context = f"{format_tokens(best.context_tokens)} context" if best.context_tokens else "empty context"
    how = (best.engine, best.parallelism, f"{best.kv_dtype} KV" if best.kv_dtype else "", best.speculation)
    summary = f"{best.tokens_per_second:g} tok/s, {requests}, {context}, {', '.join(part for part in how if part)}"
    source = _ON_GITHUB.sub(r"\1 \2", best.source)
    return Note(
        code=BEST_PUBLISHED, message=f"best published: {summary}; {source}, {best.date} (measurements/{best.id})"
    )


def _trade(results: Sequence[PublishedRate], plan: Plan) -> Note | None:
    """Two published runs of one request that differ in DCP alone, at the context nearest to the plan's."""
    if plan.memory_fraction is None or plan.kv.copies * plan.parallel.decode_context < 2:
        return None
    middle = plan.speed.context_tokens if plan.speed else plan.context_tokens // 2
    alone = [(seen, _ranks(seen)) for seen in results if seen.concurrency == 1 and not seen.speculation]
    sharing: dict[tuple[object, ...], list[PublishedRate]] = {}
    for seen, (tensor, ranks) in alone:
        if tensor == plan.parallel.tensor and ranks > 1:
            sharing.setdefault(_apart(seen), []).append(seen)
    whole = [seen for seen, spread in alone if spread == (plan.parallel.tensor, 1)]
    pairs = [(one, many) for one in whole for many in sharing.get(_apart(one), ())]
    if not pairs:
        return None
    one, many = max(pairs, key=lambda pair: (-abs(pair[0].context_tokens - middle), _ranks(pair[1])[1], pair[0].date))
    change = many.tokens_per_second / one.tokens_per_second - 1
    cache = ""
    if one.kv_tokens and many.kv_tokens:
        times = many.kv_tokens / one.kv_tokens
        cache = (
            f", KV cache {format_tokens(many.kv_tokens)} instead of {format_tokens(one.kv_tokens)} tokens "
            f"({times:.0f}x)"
        )
    ranks = _ranks(many)[1]
    message = (
        f"DCP {ranks} costs {-change:.0%} of decode" if change < 0 else f"DCP {ranks} decodes {change:.0%} faster"
    ) + (
        f" at {format_tokens(one.context_tokens)} context, {many.tokens_per_second:g} instead of "
        f"{one.tokens_per_second:g} "
        f"tok/s{cache}, measured with {one.engine} (measurements/{one.id}, {many.id})"
    )
    return Note(code=TRADE, message=message, remedy=f"--dcp {ranks}" if plan.parallel.decode_context == 1 else None)


def _apart(seen: PublishedRate) -> tuple[object, ...]:
    return seen.engine, seen.version, seen.date, seen.speculation, seen.kv_dtype, seen.context_tokens


def _ranks(seen: PublishedRate) -> tuple[int, int]:
    """Tensor parallel, and DCP; 1 where the author names none."""
    spread = _SPREAD.search(seen.parallelism or "")
    return (int(spread[1]), int(spread[2] or 1)) if spread else (0, 0)


def _crowd(plan: Plan, model: Model, box: Box) -> Note | None:
    """The cache may hold more users than the box decodes for: said where that many would fall below a least speed."""
    least = plan.goal.minimum_tokens_per_second or BEARABLE_TOKENS_PER_SECOND
    if plan.speed is None or plan.users_at_context <= plan.goal.users or plan.speed.decode.low < least:
        return None

    def decode(users: int) -> Rate | None:
        crowded = plan.model_copy(update={"goal": plan.goal.model_copy(update={"users": users})})
        rates = speed(crowded, model, box)
        return rates.decode if isinstance(rates, Speed) else None

    everyone = decode(plan.users_at_context)
    if everyone is None:
        message = f"decode with {plan.users_at_context} concurrent users is not known: it was measured with fewer"
        return Note(code=CROWD, message=message, remedy="upright bench")
    if everyone.low >= least:
        return None
    few, many = plan.goal.users, plan.users_at_context
    while many - few > 1:
        middle = (few + many) // 2
        rate = decode(middle)
        few, many = (middle, many) if rate and rate.low >= least else (few, middle)
    message = (
        f"the KV cache holds {plan.users_at_context} users, who would decode at {everyone.low:.1f} to "
        f"{everyone.high:.1f} tok/s each; {few} {'user gets' if few == 1 else 'users get'} {least:g} tok/s or more"
    )
    return Note(code=CROWD, message=message, remedy=f"--users {few}")


def _sockets(plan: Plan, box: Box) -> Note | None:
    """One socket's bandwidth is counted: both count only where every core reads its own socket's RAM."""
    reads_ram = plan.speed is not None and any(term.term == "memory" for term in plan.speed.terms)
    if not reads_ram or (box.cpu.sockets or 1) < 2:
        return None
    message = (
        f"decode counts the RAM of one of {box.cpu.sockets} sockets. Published runs that were bound to none decoded at "
        "0.5 to 0.8 of that (2x Xeon 6138, 2x Xeon 5218, 2x EPYC 9175F), with memory placed by NUMA node at up to "
        "twice (measurements/m339)"
    )
    remedy = "numactl --cpunodebind=0 --membind=0, where one socket's RAM holds it"
    return Note(code=SOCKETS, message=message, remedy=remedy)


def _thinking(row: ModelRow | None, plan: Plan) -> Note | None:
    off = model_settings.non_thinking_arguments(row, plan)
    if off is None:
        return None
    kwargs_text = ", ".join(f"{name}={str(setting).lower()}" for name, setting in off.items())
    message = (
        "thinking is turned off: experts offloaded to CPU decode below "
        f"{model_settings.NON_THINKING_BELOW_TOKENS_PER_SECOND} tok/s, so the recipe sets {kwargs_text}; "
        "a request may turn it on again"
    )
    return Note(code=THINKING_OFF, message=message, remedy="chat_template_kwargs in the request")

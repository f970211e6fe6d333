"""Notes on a plan that fits: published runs of the model on such a box, and what the plan turns off.

Nothing here decides anything: a published speed belongs to its own build, draft and context.
"""

from __future__ import annotations

from collections.abc import Sequence

from upright.base.units import format_tokens
from upright.engines import model_settings
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.published_rates import PublishedRate
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Note, Plan, Rate, Speed
from upright.planning.choosing.nearest_run import nearest_run
from upright.planning.speed.layered import BOUND_TO_NONE
from upright.planning.speed.predict import speed
from upright.planning.speed.sibling_runs import ranks_of_run, runs_of

NEAREST_PUBLISHED = "nearest-published"
TRADE = "dcp-trade"
THINKING_OFF = "thinking-off"
CROWD = "users-by-speed"
SOCKETS = "memory-by-socket"
BEARABLE_TOKENS_PER_SECOND = 10.0
"""Of each user, without `--min-speed`: about what a person reads."""


def published_notes(plan: Plan, model: Model, box: Box) -> tuple[Note, ...]:
    """The nearest run, the trade of DCP, thinking that the recipe turns off, users by speed, memory by socket."""
    row = row_of(model)
    results = list(runs_of(row, box)) if row and plan.parallel.nodes == 1 else []
    crowd, sockets = _crowd(plan, model, box), _sockets(plan, box)
    notes = (_nearest(plan, model, box), _trade(results, plan), _thinking(row, plan), crowd, sockets)
    return tuple(note for note in notes if note is not None)


def _nearest(plan: Plan, model: Model, box: Box) -> Note | None:
    found = nearest_run(plan, model, box)
    return found and Note(code=NEAREST_PUBLISHED, message=f"nearest published: {found.words}")


def _trade(results: Sequence[PublishedRate], plan: Plan) -> Note | None:
    """Two published runs of one request that differ in DCP alone, at the context nearest to the plan's."""
    if plan.memory_fraction is None or plan.kv.copies * plan.parallel.decode_context < 2:
        return None
    middle = plan.speed.context_tokens if plan.speed else plan.context_tokens // 2
    alone = [(seen, ranks_of_run(seen)) for seen in results if seen.concurrency == 1 and not seen.speculation]
    sharing: dict[tuple[object, ...], list[PublishedRate]] = {}
    for seen, (tensor, ranks) in alone:
        if tensor == plan.parallel.tensor and ranks > 1:
            sharing.setdefault(_apart(seen), []).append(seen)
    whole = [seen for seen, spread in alone if spread == (plan.parallel.tensor, 1)]
    pairs = [(one, many) for one in whole for many in sharing.get(_apart(one), ())]
    if not pairs:
        return None
    one, many = max(
        pairs, key=lambda pair: (-abs(pair[0].context_tokens - middle), ranks_of_run(pair[1])[1], pair[0].date)
    )
    change = many.tokens_per_second / one.tokens_per_second - 1
    cache = ""
    if one.kv_tokens and many.kv_tokens:
        times = many.kv_tokens / one.kv_tokens
        cache = (
            f", KV cache {format_tokens(many.kv_tokens)} instead of {format_tokens(one.kv_tokens)} tokens "
            f"({times:.0f}x)"
        )
    ranks = ranks_of_run(many)[1]
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
    """Both count only where every core reads its own socket's RAM."""
    terms = [term for term in plan.speed.terms if term.step == "decode"] if plan.speed else []
    in_ram = sum(term.milliseconds for term in terms if term.term == "memory")
    if not in_ram or (box.cpu.sockets or 1) < 2:
        return None
    step = sum(term.milliseconds for term in terms)
    bound = step / (step - (1 - BOUND_TO_NONE) * in_ram)
    message = (
        f"decode is that of an engine bound to none of {box.cpu.sockets} sockets, which does {BOUND_TO_NONE:g} of what "
        f"one does alone: bound to one it is {bound:.1f} times as fast, and with "
        "memory placed by NUMA node faster still (measurements/m339)"
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

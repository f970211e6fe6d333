"""Several boxes as one model: the box they make, what the network costs each token, and whether replicas are better.

Ranks of tensor parallelism stay within a box and stages go across, or everything is divided over all: both are planned.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.errors import UsageError
from upright.base.units import format_tokens
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import LinkRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Note, Plan, Rate, Speed, SpeedTerm
from upright.planning.placement.devices import RAM_NOT_SPECIFIED
from upright.planning.speed.work import BF16

DEFAULT_LINK = "infiniband-400g"
# What one model must be faster by to be worth that one failing box takes all of it down.
_FASTER = 1.1


def network(name: str | None) -> LinkRow:
    """The row of a network between boxes."""
    row = catalog.find("links", name or DEFAULT_LINK)
    if not isinstance(row, LinkRow) or row.path != "network":
        known = ", ".join(link.id for link in catalog.links() if link.path == "network")
        raise UsageError(f"no network named {name}", hint=f"one of {known}")
    return row


def joined_boxes(box: Box, nodes: int) -> Box:
    """One box with the GPUs of all of them, and the wires within each."""
    gpus_per_node = len(box.gpus)
    gpus = [
        gpu.model_copy(update={"index": node * gpus_per_node + number})
        for node in range(nodes)
        for number, gpu in enumerate(box.gpus)
    ]
    links = [
        link.model_copy(update={"a": node * gpus_per_node + link.a, "b": node * gpus_per_node + link.b})
        for node in range(nodes)
        for link in box.links
    ]
    return box.model_copy(update={"name": f"{nodes} x {box.name}", "gpus": tuple(gpus), "links": tuple(links)})


def with_network_time(plan: Plan, speed: Speed, model: Model) -> Speed:
    """The same with what the network adds to every step."""
    row = network(plan.goal.link)
    seconds, why = _network_seconds(plan, model, row)
    term = SpeedTerm(step="decode", term="network", milliseconds=round(1e3 * seconds, 3), why=why)
    users = plan.goal.users
    return speed.model_copy(
        update={
            "decode": _slower(speed.decode, 1, seconds),
            "empty": _slower(speed.empty, 1, seconds),
            "full": _slower(speed.full, 1, seconds),
            "together": _slower(speed.together, users, seconds),
            "terms": (*speed.terms, term),
            "basis": "derived",
            "why": f"{speed.why}; the network by links/{row.id}, no measurement of the two together",
        }
    )


def replica_notes(together: Plan, alone: Plan) -> Iterator[Note]:
    """Whether one model on all boxes beats a replica on each, and why."""
    nodes = together.parallel.nodes
    if not together.fits:
        return
    if not alone.fits:
        first = alone.objections[0]
        with_ram = first.code == RAM_NOT_SPECIFIED
        lead = "one box holds it only with experts in system RAM" if with_ram else "one box cannot hold it"
        message = f"{lead}: {first.message}. {nodes} boxes as one model can"
        yield Note(code="one-model", message=message)
        return
    pool, replica_pool = together.kv.low_tokens, alone.kv.low_tokens
    room = f"one cache of {format_tokens(pool)} tokens against {nodes} of {format_tokens(replica_pool)}"
    fast, slow = (plan.speed.decode.best if plan.speed else None for plan in (together, alone))
    if fast is None or slow is None:
        yield Note(code="replicas", message=f"it fits on one box; {room}. How fast either is, is not known")
        return
    rates = f"{fast:.0f} tok/s for a user against {slow:.0f}"
    if fast > _FASTER * slow:
        yield Note(code="one-model", message=f"as one model it is faster: {rates}; {room}")
        return
    held = pool / (nodes * replica_pool) if replica_pool else 0.0
    message = (
        f"it fits on one box: {nodes} replicas behind a router serve as many streams at {slow:.0f} tok/s each, and one "
        f"that fails takes a part. As one model: {rates}, {room}, {held:.1f} times as much in all"
    )
    yield Note(code="replicas", message=message, remedy="upright fleet size says whether the cache binds")


def _network_seconds(plan: Plan, model: Model, row: LinkRow) -> tuple[float, str]:
    """Of one decode step, and in words."""
    nodes, users, shape = plan.parallel.nodes, plan.goal.users, model.architecture
    latency = float((row.latency_us.value if row.latency_us else None) or 0) * 1e-6
    bandwidth = float((row.bandwidth_gb_s.value if row.bandwidth_gb_s else None) or 1) * 1e9
    sent = users * shape.hidden_size * BF16
    if plan.parallel.pipeline >= nodes:
        messages = nodes  # forward through the stages, and the token back to the first
        seconds = messages * (latency + sent / bandwidth)
        why = f"{messages} messages of {sent:,} B between stages, {latency * 1e6:g} us each (links/{row.id})"
        return seconds, why
    operations, steps = 2 * shape.layers + 1, 2 * (nodes - 1)
    seconds = operations * steps * (latency + sent / nodes / bandwidth)
    why = f"{operations} all-reduces of {sent:,} B, {steps} steps of {latency * 1e6:g} us each (links/{row.id})"
    return seconds, why


def _slower(rate: Rate, users: int, seconds: float) -> Rate:
    def less(value: float | None) -> float | None:
        return None if value is None else round(users / (users / value + seconds), 1) if value else 0.0

    return Rate(best=less(rate.best), low=less(rate.low) or 0.0, high=less(rate.high) or 0.0)

"""Marks of a cell: why it is not what it claims to be.

A number with a mark is shown with its mark, and enters no mean and no comparison.
"""

from __future__ import annotations

from upright.facts.records.benchmark import Cell
from upright.serving.endpoint.guards import GUARDS

RULES_SINCE = "0.1.0"
"""The first release that marks by these rules; a change of them brings another."""
QUEUED = "queued: "
"""How the mark begins of a cell whose requests waited in the engine."""
_OFF = 0.01
_SHORT = 0.95
_BUSY = 0.9
_LATE_SECONDS = 0.02
_STILL_SECONDS = 0.5
_CACHED = 0.05
_FEW = 0.5
"""Up to this share of the sampled answers may be odd: they were made to go on past their end."""
_BROKEN = ("flood", "empty", "utf-8")
"""Guards that mean a broken model; a loop may only mean that it had to go on past its end."""


def marks(cell: Cell, *, paced: bool = False) -> tuple[str, ...]:
    """In words, the worst first. A replay is paced by its waits, and each of its turns has a length of its own."""
    load = [] if paced else _not_the_load(cell)
    lengths = [] if paced else _not_the_tokens(cell)
    return (*_failures(cell), *load, *lengths, *_not_the_clock(cell), *_not_sane(cell))


def notes(cell: Cell, *, paced: bool = False) -> tuple[str, ...]:
    remarks = []
    shape = cell.shape
    if not paced and shape.arrival == "closed" and cell.succeeded and cell.in_flight_mean < 0.8 * shape.concurrency:
        remarks.append(
            f"on average {cell.in_flight_mean:,.1f} of {shape.concurrency:,} in flight: start and end are in it"
        )
    if cell.complaints and not _not_sane(cell):
        what = ", ".join(f"{GUARDS[guard]} ({count})" for guard, count in cell.complaints.items())
        remarks.append(f"of {cell.sampled} sampled answers, all made to go on past their end: {what}")
    view = cell.engine
    if view and view.preemptions:
        remarks.append(f"the engine threw out {view.preemptions} requests for lack of cache and began them again")
    return tuple(remarks)


def _failures(cell: Cell) -> list[str]:
    reasons = []
    if cell.errors:
        kinds = ", ".join(
            f"{kind} ({count:,})" for kind, count in sorted(cell.errors.items(), key=lambda pair: -pair[1])
        )
        reasons.append(f"{cell.failed:,} of {cell.sent:,} requests failed: {kinds}")
    if not cell.complete:
        reasons.append("the server went away")
    if cell.unfinished:
        reasons.append(f"the time box cut {cell.unfinished:,} of {cell.sent:,} requests")
    if not cell.succeeded and not reasons:
        reasons.append("nothing was sent" if not cell.sent else "no request ended")
    return reasons


def _not_the_load(cell: Cell) -> list[str]:
    shape, view = cell.shape, cell.engine
    if shape.arrival == "open":
        return []
    possible = min(shape.concurrency, shape.requests)
    if cell.in_flight_peak < possible:
        return [f"{cell.in_flight_peak:,} of {possible:,} requests were in flight at most"]
    if view and view.running and view.waiting and view.running.count >= 3:
        held = view.running.high
        if held < 0.95 * possible and view.waiting.p50 >= 1:
            return [f"{QUEUED}the engine worked on {held:.0f} of {possible:,} at most, {view.waiting.p50:.0f} waited"]
    return []


def _not_the_tokens(cell: Cell) -> list[str]:
    reasons = []
    shape = cell.shape
    if cell.prompt_tokens is not None and shape.turns == 1:
        off = cell.prompt_tokens.mean / shape.prompt_tokens - 1
        if abs(off) > _OFF and abs(cell.prompt_tokens.mean - shape.prompt_tokens) > 2:
            reasons.append(f"prompts had {cell.prompt_tokens.mean:,.0f} tokens, not {shape.prompt_tokens:,}")
        template = (cell.template_tokens or 0) * cell.prompt_tokens.count
        counted = cell.prompt_tokens.mean * cell.prompt_tokens.count
        if cell.cached_tokens and not shape.shared_tokens and cell.cached_tokens - template > _CACHED * counted:
            share = 100 * cell.cached_tokens / counted
            reasons.append(f"prompts were not fresh: {share:.0f} % of their tokens came from the cache")
    if cell.output_tokens is not None and cell.output_tokens.mean < _SHORT * shape.output_tokens:
        reasons.append(f"answers had {cell.output_tokens.mean:,.0f} tokens, not {shape.output_tokens:,}")
    return reasons


def _not_the_clock(cell: Cell) -> list[str]:
    reasons = []
    cpu = cell.machine.cpu_seconds
    if cpu is not None and cell.seconds > 1 and cpu > _BUSY * cell.seconds:
        reasons.append(
            f"the generator was busy {100 * cpu / cell.seconds:.0f} % of the time: it may have been the limit"
        )
    lag = cell.machine.lag_seconds
    if lag is not None and lag > _STILL_SECONDS:
        reasons.append(f"the generator stood still for {lag:.1f} s: what came meanwhile was seen late")
    if cell.late_seconds is not None and cell.late_seconds.p99 > _LATE_SECONDS:
        reasons.append(f"requests were sent up to {1000 * cell.late_seconds.p99:.0f} ms late")
    return reasons


def _not_sane(cell: Cell) -> list[str]:
    broken = {guard: count for guard, count in cell.complaints.items() if guard in _BROKEN}
    if sum(broken.values()) <= _FEW * cell.sampled:
        return []
    return [f"{count} of {cell.sampled} sampled answers: {GUARDS[guard]}" for guard, count in broken.items()]

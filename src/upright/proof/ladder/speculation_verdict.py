"""Whether speculative decoding pays, where, by how much, and what to do about it. Pure.

It is kept only if it wins somewhere by more than its uncertainty, loses nowhere, and is known wherever the Goal goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from upright.base import units
from upright.facts.catalog.speculation_pairs import nearest_pair
from upright.facts.records.benchmark import Benchmark, Shape
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.speculation import CellVerdict, Expectation, Factor, SpeculationCell, Tried
from upright.proof.benchmark.comparison import Difference, compare, shape_words
from upright.proof.benchmark.rows import ShapeRow, rows
from upright.proof.benchmark.statistics import ALIKE, is_informative
from upright.proof.benchmark.workload import shape_tokens
from upright.proof.ladder.observing import text_of
from upright.serving.endpoint.guards import GUARDS

COLLAPSED = 0.05
"""Of the guesses: below it a draft does not know this model, or its cache is broken (rtx6kpro issue 63: 0.05)."""
_FELL_TO = 0.25
"""Of its best cell: acceptance below this share of it has collapsed there."""
_WITNESS_TOKENS = 100
"""Fewer guesses than this say nothing about how many hold."""
_FEW_ANSWERS, _CLEARLY_MORE = 3, 0.25
"""Broken answers under load count from so many on, and from so much larger a share on."""


def cells(record: Benchmark, letter: str, method: str, decode_context: int = 1) -> tuple[SpeculationCell, ...]:
    """The verdict of each cell that was asked for, by the pairs of one candidate and the base."""
    measured_rows = rows(record.cells)
    base = {row.shape: row for row in measured_rows if row.subject == "a"}
    with_it = {row.shape: row for row in measured_rows if row.subject == letter}
    shapes = dict.fromkeys((*base, *(skipped.shape for skipped in record.skipped)))
    return tuple(
        _cell(shape, base.get(shape), with_it.get(shape), _left_out(record, shape, letter), method, decode_context)
        for shape in shapes
    )


def damage(before: Evidence, after: Evidence) -> tuple[tuple[str, ...], int, int]:
    """(what was right and is wrong now, answers compared, answers that are word for word the same)."""
    earlier = {(seen.rung, seen.probe): seen for seen in before.observations}
    pairs = [(earlier[key], seen) for seen in after.observations if (key := (seen.rung, seen.probe)) in earlier]
    compared = [(old, new) for old, new in pairs if old.response is not None and new.response is not None]
    lost = [new for old, new in pairs if old.verdict != "failed" and new.verdict == "failed"]
    alike = sum(_said(old) == _said(new) for old, new in compared)
    return tuple(f"{seen.rung} {seen.probe}: {seen.reason}" for seen in lost), len(compared), alike


def broken_under_load(record: Benchmark, letter: str) -> str | None:
    """What the guards say of the answers in the cells, if they say clearly more with the candidate; None if not.

    Answers were made to go on past their end, so some are odd with or without it.
    """
    base, with_it = (_complaints(record, subject) for subject in ("a", letter))
    for guard, (count, of) in with_it.items():
        before, before_of = base.get(guard, (0, 0))
        share, before_share = count / of, before / before_of if before_of else 0.0
        if count >= _FEW_ANSWERS and share - before_share > _CLEARLY_MORE:
            without = f"{before} of {before_of} without it"
            return f"under load {count} of {of} answers are broken ({GUARDS[guard]}), {without}"
    return None


def collapses(drafted: int | None, acceptance: float | None, found: Sequence[SpeculationCell]) -> tuple[str, ...]:
    """Guesses that hardly ever hold, all in all or from some load on."""
    if acceptance is not None and (drafted or 0) >= _WITNESS_TOKENS and acceptance < COLLAPSED:
        return (f"acceptance collapsed: {100 * acceptance:.1f} % of {drafted:,} guesses held",)
    known = [cell for cell in found if cell.acceptance is not None]
    best = max((cell.acceptance or 0.0 for cell in known), default=0.0)
    return tuple(
        f"acceptance collapses at {shape_words(cell.shape)}: {100 * (cell.acceptance or 0):.0f} %, elsewhere up to "
        f"{100 * best:.0f} %"
        for cell in known
        if (cell.acceptance or 0.0) < _FELL_TO * best
    )


def pool_words(tried: Tried, base_tokens: int | None, base_bytes: int | None) -> str | None:
    """What it costs of the cache, in the engine's own figures; None if the engine does not say."""
    if base_tokens and tried.pool_tokens:
        change = 100 * (tried.pool_tokens / base_tokens - 1)
        capacity_text = f"the cache holds {tried.pool_tokens:,} tokens, {base_tokens:,} without it ({change:+.1f} %)"
        if change or not (base_bytes and tried.cache_bytes):
            return capacity_text
    if base_bytes and tried.cache_bytes:
        change = 100 * (tried.cache_bytes / base_bytes - 1)
        size = (
            f"{units.format_memory(tried.cache_bytes)}, {units.format_memory(base_bytes)} without it ({change:+.1f} %)"
        )
        return f"the caches take {size}, for as many tokens" if base_tokens else f"the caches take {size}"
    return None


def objection(tried: Tried, context_tokens: int, users: int) -> str | None:
    """Why it should not be kept for this Goal; None if it should."""
    if tried.outcome in ("fell", "damages"):
        return tried.reason
    if tried.pool_tokens is not None and tried.pool_tokens < context_tokens * users:
        return f"its cache holds {tried.pool_tokens:,} tokens, and {users} x {context_tokens:,} are promised"
    if not any(cell.verdict != "not measurable" for cell in tried.cells):
        return "nothing could be measured: " + (tried.cells[0].reason if tried.cells else "no cell fits")
    lost = [cell for cell in tried.cells if cell.verdict == "loses"]
    if lost:
        return _of_cells("it loses", lost, len(tried.cells)) + _wins_elsewhere(tried)
    unknown = [cell for cell in _unmeasured(tried) if _is_within(cell.shape, context_tokens, users)]
    if unknown:
        where = f"{shape_words(unknown[0].shape)}: {unknown[0].reason}"
        return f"{len(unknown)} of {len(tried.cells)} cells could not be measured ({where})" + _wins_elsewhere(tried)
    if not tried.count("wins"):
        return _without_wins(tried)
    return None


def _without_wins(tried: Tried) -> str:
    measured = len(tried.cells) - tried.count("not measurable")
    if unsure := tried.count("cannot tell"):
        return f"nobody can tell in {unsure} of {measured} cells: the pairs vary more than they differ"
    return f"no difference above {100 * (ALIKE - 1):.0f} % in any of {measured} cells"


def best(tried: Sequence[Tried], context_tokens: int, users: int) -> Tried | None:
    """The one to keep: among those without an objection the largest gain over all cells."""
    fitting = [candidate for candidate in tried if objection(candidate, context_tokens, users) is None]
    return max(fitting, key=_gain, default=None)


def with_reason(tried: Tried, chosen: Tried | None) -> Tried:
    """Why something that pays was not kept, where nothing else is said of it."""
    if tried.reason:
        return tried
    reason = "it pays, and was only to be judged"
    if chosen is not None and chosen.way != tried.way:
        reason = f"it pays, and {chosen.name} gains more"
    return tried.model_copy(update={"reason": reason})


def gains(tried: Tried) -> str:
    """it wins in 2 of 4 cells (+32 % at ...) and loses in none; 1 beyond the goal could not be measured."""
    wins, unknown = [cell for cell in tried.cells if cell.verdict == "wins"], len(_unmeasured(tried))
    more = f"; {unknown} beyond the goal could not be measured" if unknown else ""
    return f"{_of_cells('it wins', wins, len(tried.cells))} and loses in none{more}"


def recommendation(tried: Sequence[Tried], context_tokens: int, users: int, base_speculates: str | None) -> str:
    goal = f"{users} user{'s' if users > 1 else ''} with {context_tokens:,} tokens"
    kept = next((candidate for candidate in tried if candidate.outcome == "kept"), None)
    if kept is not None:
        return f"For {goal}: keep {kept.name}; {gains(kept)}."
    pays = best(tried, context_tokens, users)
    if pays is not None:
        return f"For {goal}: {pays.name} pays; {gains(pays)}."
    left = "leave it as it is" if base_speculates else "leave speculation off"
    reasons = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in tried)
    return f"For {goal}: {left}. {reasons}."


def percent(found: Factor) -> str:
    """+32.1 % (+28.0 to +36.4)."""
    middle = f"{100 * (found.factor - 1):+.1f} %"
    if found.low is None or found.high is None:
        return f"{middle} (one pair)"
    if not is_informative(found.low, found.high):
        return f"{middle} (interval too wide)"
    return f"{middle} ({100 * (found.low - 1):+.1f} to {100 * (found.high - 1):+.1f})"


def _cell(
    shape: Shape,
    base: ShapeRow | None,
    with_it: ShapeRow | None,
    left_out: str | None,
    method: str,
    decode_context: int,
) -> SpeculationCell:
    published = _expectation(method, shape, decode_context)
    if base is None or with_it is None:
        reason = left_out or "it was not measured"
        return SpeculationCell(shape=shape, verdict="not measurable", reason=reason, published=published)
    by_metric = {difference.metric.name: difference for difference in compare([base], [with_it])}
    if (output := by_metric.get("output")) is None:
        marked = base.marks if base.marked else with_it.marks
        reason = marked[0] if marked else "no repeat is clean in both"
        return SpeculationCell(shape=shape, verdict="not measurable", reason=reason, published=published)
    verdict = _verdict(output)
    worse = [
        name for name in ("ttft", "tpot") if name in by_metric and by_metric[name].better == "a" and verdict == "wins"
    ]
    factor = _factor(output)
    assert factor is not None
    more = "".join(f", {by_metric[name].metric.words} {by_metric[name].percent:+.0f} %" for name in worse)
    return SpeculationCell(
        shape=shape,
        verdict=verdict,
        reason=f"{verdict}: {percent(factor)} output tokens a second{more}",
        base_tokens_per_second=output.a.value,
        tokens_per_second=output.b.value,
        output=factor,
        ttft=_factor(by_metric.get("ttft")),
        tpot=_factor(by_metric.get("tpot")),
        pairs=output.pairs or 0,
        acceptance=_acceptance(with_it),
        published=published,
    )


def _verdict(output: Difference) -> CellVerdict:
    if output.ratio.low is None:  # one pair never tells
        return "not measurable"
    if output.better is None:
        return "no difference" if output.ratio.alike else "cannot tell"
    return "wins" if output.better == "b" else "loses"


def _complaints(record: Benchmark, subject: str) -> dict[str, tuple[int, int]]:
    """By guard: answers that it spoke of, and answers that it looked at."""
    cells = [cell for cell in record.cells if cell.subject == subject]
    looked_at = sum(cell.sampled for cell in cells)
    return {guard: (sum(cell.complaints.get(guard, 0) for cell in cells), looked_at) for guard in GUARDS if looked_at}


def _left_out(record: Benchmark, shape: Shape, letter: str) -> str | None:
    reasons = [skipped_cell.reason for skipped_cell in record.skipped if skipped_cell.shape == shape]
    own = [reason for reason in reasons if reason.startswith(f"{letter} fell: ")]
    return own[0].removeprefix(f"{letter} fell: ") if own else (reasons[0] if reasons else None)


def _factor(found: Difference | None) -> Factor | None:
    if found is None:
        return None
    return Factor(factor=found.ratio.factor, low=found.ratio.low, high=found.ratio.high)


def _acceptance(row: ShapeRow) -> float | None:
    views = [cell.engine for cell in row.cells if cell.engine is not None and cell.engine.drafted_tokens]
    drafted = sum(view.drafted_tokens or 0 for view in views)
    return sum(view.accepted_tokens or 0 for view in views) / drafted if drafted else None


def _expectation(method: str, shape: Shape, decode_context: int) -> Expectation | None:
    pair = nearest_pair(method, shape.prompt_tokens, shape.concurrency, decode_context)
    if pair is None:
        return None
    return Expectation(
        factor=pair.factor,
        what=pair.words,
        context_tokens=pair.drafted.context_tokens or 0,
        concurrency=pair.drafted.concurrency or 1,
        rows=(pair.without.id, pair.drafted.id),
        source=pair.drafted.sources[0],
    )


def _said(seen: Observation) -> object:
    """What was answered, without ids and times."""
    choices = (seen.response or {}).get("choices") or [{}]
    calls = (choices[0].get("message") or {}).get("tool_calls") or []
    return text_of(seen), [(call.get("function") or {}) for call in calls]


def _unmeasured(tried: Tried) -> list[SpeculationCell]:
    return [cell for cell in tried.cells if cell.verdict == "not measurable"]


def _is_within(shape: Shape, context_tokens: int, users: int) -> bool:
    """Whether the Goal promises such a load."""
    return shape.concurrency <= users and shape_tokens(shape) <= context_tokens


def _of_cells(verb: str, found: Sequence[SpeculationCell], of: int) -> str:
    def gain(cell: SpeculationCell) -> float:
        return abs(math.log(cell.output.factor)) if cell.output else 0.0

    largest = max(found, key=gain)
    change = 100 * (largest.output.factor - 1) if largest.output else 0.0
    return f"{verb} in {len(found)} of {of} cells ({change:+.0f} % at {shape_words(largest.shape)})"


def _wins_elsewhere(tried: Tried) -> str:
    wins = [cell for cell in tried.cells if cell.verdict == "wins"]
    return f", though {_of_cells('it wins', wins, len(tried.cells))}" if wins else ""


def _gain(tried: Tried) -> float:
    return sum(math.log(cell.output.factor) for cell in tried.cells if cell.output is not None)

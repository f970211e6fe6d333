"""What the engine's own start code was asked and refused, held against a situation like any constraint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from upright.engines.constraints.situation import Situation
from upright.facts import catalog
from upright.facts.catalog.recorded_starts import RecordedStart, StartKey, recorded_starts
from upright.facts.catalog.rows.constraint import ConstraintRow, Demand, FactName
from upright.facts.catalog.rows.model import ModelRow

_OPTIONS: Mapping[str, tuple[FactName, str]] = {
    "cache_type": ("cache_type", "--kv-dtype"),
    "decode_context": ("decode_context", "--dcp"),
    "tensor": ("tensor", "--tp"),
}
"""What may be asked otherwise, the least costly first."""


def refused_start(situation: Situation) -> ConstraintRow | None:
    """The refusal as a row that this situation breaks; None if the engine accepts, or was not asked."""
    setting = _setting(situation)
    refused = refusals(situation.engine, situation.version).get(setting) if setting else None
    if not refused:
        return None
    about = situation.circumstances
    own = (about.artifact or "").replace("/", "--")
    if own in refused:
        return _row(situation, refused[own])
    row = catalog.find("models", about.model) if about.model else None
    start = refused.get(row.configuration or "") if isinstance(row, ModelRow) else None
    return None if start is None or start.of_this_build else _row(situation, start)


@cache
def refusals(engine: str, version: str | None) -> Mapping[StartKey, Mapping[str, RecordedStart]]:
    """By what was set, and then by the configuration that was refused."""
    found: dict[StartKey, dict[str, RecordedStart]] = {}
    for key, start in recorded_starts(engine, version).items():
        if start.verdict == "refuses":
            found.setdefault(key._replace(configuration=""), {})[key.configuration] = start
    return found


def _setting(situation: Situation) -> StartKey | None:
    """The question as it was recorded, of no model yet. Builds with patches or another source were not asked."""
    about = situation.circumstances
    if about.compute_capability is None or about.image is not None or about.patches:
        return None
    cache_type = situation.fact("cache_type")
    return StartKey(
        "",
        about.compute_capability,
        situation.number("tensor"),
        situation.number("pipeline"),
        situation.number("decode_context"),
        bool(situation.fact("expert_parallel")),
        "auto" if cache_type in (None, "bf16", "auto") else str(cache_type),
    )


def _row(situation: Situation, start: RecordedStart) -> ConstraintRow:
    fact, instead = _otherwise(start, recorded_starts(situation.engine, situation.version))
    where = f" ({start.file}:{start.line})" if start.file else ""
    return ConstraintRow(
        id=f"{situation.engine}-start-code",
        engine=situation.engine,
        title=f"{situation.engine} {situation.version} itself refuses this at its start",
        force="must-not",
        demand=Demand(fact=fact, one_of=(str(situation.fact(fact)),)),
        about=f"{start.sentence}{where}",
        instead=f"{instead}: its start code accepts that." if instead else "Another split, build or GPU.",
        remedy=instead or None,
        broken_by={},
        grade="A",
        sources=(f"asked of {situation.engine} {situation.version} by scripts/ask-engine",),
    )


def _otherwise(start: RecordedStart, starts: Mapping[StartKey, RecordedStart]) -> tuple[FactName, str]:
    """The one setting that the engine accepts instead, as it was asked."""
    for field, (fact, option) in _OPTIONS.items():
        accepted = [
            getattr(other.key, field)
            for other in starts.values()
            if other.verdict == "accepts" and other.key._replace(**{field: getattr(start.key, field)}) == start.key
        ]
        if accepted:
            return fact, f"{option} {max(accepted, key=_size)}"
    return ("decode_context" if start.key.decode_context > 1 else "tensor"), ""


def _size(setting: str | int) -> int:
    return setting if isinstance(setting, int) else 0

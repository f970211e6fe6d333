"""What the engine's own start code was asked and refused, held against a situation like any constraint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from upright.engines.constraints.situation import Situation
from upright.facts import catalog
from upright.facts.catalog.recorded_starts import RecordedStart, StartKey, recorded_refusals, recorded_starts
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
    if _asked(situation, recorded_refusals(situation.engine, situation.version)) is None:
        return None
    asked = asked_start(situation)  # its own build may be accepted
    return _row(situation, asked) if asked and asked.verdict == "refuses" else None


def asked_start(situation: Situation) -> RecordedStart | None:
    """What was recorded of this build, or of the model as it was first published; None if neither was asked."""
    return _asked(situation, recorded_starts(situation.engine, situation.version))


def _asked(situation: Situation, starts: Mapping[StartKey, RecordedStart]) -> RecordedStart | None:
    setting, about = _setting(situation), situation.circumstances
    if setting is None:
        return None
    if own := starts.get(setting._replace(configuration=(about.artifact or "").replace("/", "--"))):
        return own
    name = published_configuration(about.model)
    start = starts.get(setting._replace(configuration=name)) if name else None
    return None if start is None or start.of_this_build else start


@cache
def published_configuration(model: str | None) -> str | None:
    """The recorded config.json of a model's row, or of another row of the same shape."""
    row = catalog.find("models", model) if model else None
    if not isinstance(row, ModelRow):
        return None
    others = (other for other in catalog.rows("models").values() if isinstance(other, ModelRow))
    alike = (other.configuration for other in others if row.shape is not None and other.shape == row.shape)
    return row.configuration or next(filter(None, alike), None)


def start_key(situation: Situation) -> StartKey | None:
    """What would have to be asked for this; None if a question cannot say it."""
    setting, about = _setting(situation), situation.circumstances
    own = (about.artifact or "").replace("/", "--")
    name = own if own in catalog.configurations() else published_configuration(about.model)
    return setting._replace(configuration=name) if setting and name else None


def _setting(situation: Situation) -> StartKey | None:
    """The question as it was recorded, of no model yet. Builds with patches or another source were not asked, nor
    replicas of attention.
    """
    about = situation.circumstances
    if situation.number("data") > 1 or about.compute_capability is None or about.image is not None or about.patches:
        return None
    cache_type = situation.fact("cache_type")
    return StartKey(
        "",
        about.compute_capability,
        situation.number("tensor"),
        situation.number("pipeline"),
        situation.number("decode_context"),
        bool(situation.fact("expert_parallel")),
        str(cache_type or "auto"),
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

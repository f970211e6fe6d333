"""An engine that does not say enough -> a plan that says "not known", instead of another engine's figures."""

from __future__ import annotations

from upright.engines.contract import Engine
from upright.engines.facets.budget import GpuShare, Margin
from upright.engines.facets.spread import Layers, Ranks
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, KvCache, Objection, Plan
from upright.planning.choosing.ranking import NOT_KNOWN
from upright.planning.memory.overhead import overheads

_TERMS = {Ranks: ("runtime", "process", "pool-band"), Layers: ("runtime", "process", "upload")}


def missing_terms(engine: Engine, version: str | None) -> tuple[str, ...]:
    """What planning cannot do without and this engine does not have, in words; nothing if it can be planned."""
    spread, budget = engine.spread, engine.budget
    if spread is None:
        return ("how it spreads a model over devices",)
    fitting = GpuShare if isinstance(spread, Ranks) else Margin
    if not isinstance(budget, fitting):
        return ("what it may use of a GPU",)
    known = {row.term for row in overheads(engine.name, version)}
    return tuple(f"its overhead `{term}`" for term in _TERMS[type(spread)] if term not in known)


def not_known(
    box: Box,
    model: Model,
    goal: Goal,
    engine: Engine,
    version: str | None,
    context: int,
    lacking: tuple[str, ...],
) -> Plan:
    """No figure at all: an objection that names what is lacking."""
    message = f"{', '.join(lacking)}: not known of {' '.join(filter(None, (engine.name, version)))}"
    return Plan(
        made_from=(box.reference, model.reference),
        engine=engine.name,
        engine_version=version,
        goal=goal,
        model=model.name,
        box=box.name,
        context_tokens=context,
        budgets=(),
        ledger=(),
        kv=KvCache(
            dtype=goal.kv_dtype or "unknown",
            bytes_per_token=0,
            capacity_tokens=0,
            planned_tokens=context * goal.users,
            formula="not known",
        ),
        objections=(Objection(code=NOT_KNOWN, message=message, remedy="another --engine"),),
    )

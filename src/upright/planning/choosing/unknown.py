"""Plans that say "not known": an engine without figures, a model that is not understood or was never read."""

from __future__ import annotations

from upright.engines.contract import Engine
from upright.engines.facets.budget import GpuShare, Margin
from upright.engines.facets.spread import Layers, Ranks
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, KvCache, Note, Objection, Plan
from upright.models.deriving.named_builds import is_build_by_name
from upright.models.reading.contradictions import contradictions
from upright.planning.choosing.rule import NOT_KNOWN, NOT_UNDERSTOOD
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
    known = {"runtime" if row.term == "context" else row.term for row in overheads(engine.name, version)}
    return tuple(f"its overhead `{term}`" for term in _TERMS[type(spread)] if term not in known)


def unknown_engine_plan(
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


def known_by_name_note(plan: Plan, model: Model) -> Note | None:
    """What a plan rests on where no file was read and no row lists the build."""
    if plan.not_understood or not is_build_by_name(model):
        return None
    message = f"{model.source} was not read: its sizes are what its name tells ({model.quantisation})"
    return Note(code="told-by-name", message=message, remedy="plan again where the hub can be reached")


# What would be said of the cache's size is a guess then.
_GUESSES = ("pool-too-small",)
_MOST_NAMED = 6


def upper_bound_model(model: Model) -> Model:
    """The model with the most that its layers can keep, where that is bounded."""
    most = model.architecture.attention_at_most
    if not model.not_understood or most is None:
        return model
    return model.model_copy(update={"architecture": model.architecture.model_copy(update={"attention": most})})


def without_promises(done: Plan, model: Model) -> Plan:
    """The plan without a promise, and with the names that stand in the way."""
    if not model.not_understood:
        return done
    unpromised = {"not_understood": model.not_understood, "speed": None, "rungs": ()}
    if done.fits and model.basis == "read" and model.architecture.attention_at_most is not None:
        message = f"counted with the most that it can take, which fits; the rest is {not_understood_words(done, model)}"
        note = Note(code=NOT_UNDERSTOOD, message=message)
        return done.model_copy(update={**unpromised, "notes": (*done.notes, note)})
    kept = tuple(objection for objection in done.objections if objection.code not in _GUESSES)
    objection = Objection(code=NOT_UNDERSTOOD, message=not_understood_words(done, model), remedy=None)
    return done.model_copy(update={**unpromised, "objections": (objection, *kept)})


def incomplete_objection(model: Model) -> Objection | None:
    """A header that claims more than its tensors are: no engine loads that, and its size says nothing."""
    against = contradictions(model)
    if not against:
        return None
    return Objection(code="tensors-missing", message=f"{model.name} is not whole: {'; '.join(against)}")


def not_understood_words(done: Plan, model: Model) -> str:
    named = ", ".join(model.not_understood[:_MOST_NAMED])
    more = f" and {len(model.not_understood) - _MOST_NAMED} more" if len(model.not_understood) > _MOST_NAMED else ""
    kv = done.kv
    if model.architecture.attention_is_known:
        verb = "is" if len(model.not_understood) == 1 else "are"
        return (
            f"not known, because the configuration's {named}{more} {verb} not understood: weights may take more or less"
        )
    if kv.high_bytes_per_token is None:
        return f"not known, because the configuration's {named}{more} are not understood: nothing bounds the cache"
    between = f"between {kv.low_bytes_per_token or 0:,} and {kv.high_bytes_per_token:,} B a token"
    return f"not known, because the configuration's {named}{more} are not understood: the cache takes {between}"

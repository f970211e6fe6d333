"""A model that is not understood, or not whole -> a plan that promises nothing but what is sure.

Bytes are counted with the most that its layers can keep: where weights were read and even that fits, it fits.
"""

from __future__ import annotations

from upright.facts.records.model import Model
from upright.facts.records.plan import Note, Objection, Plan
from upright.planning.choosing.ranking import NOT_UNDERSTOOD

# What would be said of the cache's size is a guess then.
_GUESSES = ("pool-too-small",)
_MOST_NAMED = 6


def at_most(model: Model) -> Model:
    """The model with the most that its layers can keep, where that is bounded."""
    most = model.architecture.attention_at_most
    if not model.not_understood or most is None:
        return model
    return model.model_copy(update={"architecture": model.architecture.model_copy(update={"attention": most})})


def not_promised(done: Plan, model: Model) -> Plan:
    """The plan without a promise, and with the names that stand in the way."""
    if not model.not_understood:
        return done
    unpromised = {"not_understood": model.not_understood, "speed": None, "rungs": ()}
    if done.fits and model.basis == "read" and model.architecture.attention_at_most is not None:
        message = f"counted with the most that it can take, which fits; the rest is {words(done, model)}"
        note = Note(code=NOT_UNDERSTOOD, message=message)
        return done.model_copy(update={**unpromised, "notes": (*done.notes, note)})
    kept = tuple(objection for objection in done.objections if objection.code not in _GUESSES)
    objection = Objection(code=NOT_UNDERSTOOD, message=words(done, model), remedy=None)
    return done.model_copy(update={**unpromised, "objections": (objection, *kept)})


def incomplete(model: Model) -> Objection | None:
    """A header that claims more than its tensors are: no engine loads that, and its size says nothing."""
    if model.basis != "read":
        return None
    shape = model.architecture
    held = {line.layer for line in model.weights if line.layer is not None and line.group not in ("vision", "draft")}
    missing = len(set(range(shape.layers)) - held)
    if missing and held and not model.unknown:
        message = f"its header claims {shape.layers:,} layers, and of {missing:,} of them there is no tensor"
    elif model.parameters < (table := shape.vocabulary_size * shape.hidden_size):
        message = f"its tensors have {model.parameters:,} weights, and its embedding alone would have {table:,}"
    else:
        return None
    return Objection(code="tensors-missing", message=f"{model.name} is not whole: {message}")


def words(done: Plan, model: Model) -> str:
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

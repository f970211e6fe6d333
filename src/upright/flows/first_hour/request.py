"""A field test as a person asks for it, scheduled and not begun."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upright import __version__
from upright.base.errors import UsageError
from upright.base.progress import utc_now
from upright.facts.records.box import Box
from upright.facts.records.first_hour import FieldTest
from upright.facts.records.model import Model
from upright.flows.first_hour.schedule import FieldOptions, make_schedule
from upright.flows.line.weights import repository
from upright.models.reading import read
from upright.serving.fetch import find_weights


@dataclass(frozen=True)
class FieldRequest:
    """Limits, models and what is assumed of the network."""

    budget_seconds: float
    spend_limit: float | None
    price_per_hour: float | None
    models: tuple[str, ...]
    download_rate: float
    """Bytes a second."""


def schedule_field_test(box: Box, request: FieldRequest, *, here: bool) -> FieldTest:
    """`here`: the box is this machine, with the engines and weights that it has."""
    if request.spend_limit is not None and not request.price_per_hour:
        raise UsageError("a spend limit needs a price", hint="--price-per-hour, in the same currency")
    test = FieldTest(
        made_from=(box.reference,), name="field-test", at=utc_now(), upright=__version__, box=box.name,
        box_identity=box.identity, gpus=tuple(gpu.name for gpu in box.gpus),
        capabilities=tuple(dict.fromkeys(gpu.compute_capability for gpu in box.gpus if gpu.compute_capability)),
        budget_seconds=request.budget_seconds, price_per_hour=request.price_per_hour, spend_limit=request.spend_limit,
        steps=(),
    )  # fmt: skip
    models = tuple(read(source) for source in request.models)
    wish = FieldOptions(test.limit_seconds, request.download_rate, models)
    if here:
        wish = replace(wish, engines=frozenset(install.engine for install in box.engines), at_hand=_at_hand)
    schedule = make_schedule(box, wish)
    return test.model_copy(update={"steps": tuple(schedule.steps), "left_out": tuple(schedule.left_out)})


def _at_hand(model: Model) -> bool:
    return model.path is not None or find_weights(repository(model.source, model), model.revision) is not None

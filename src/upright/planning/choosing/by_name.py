"""Model that was told by its name alone -> the note that says so beside a plan."""

from __future__ import annotations

from upright.facts.records.model import Model
from upright.facts.records.plan import Note, Plan
from upright.models.deriving.named_builds import told_by_name


def name_note(plan: Plan, model: Model) -> Note | None:
    """What a plan rests on where no file was read and no row lists the build."""
    if plan.not_understood or not told_by_name(model):
        return None
    message = f"{model.source} was not read: its sizes are what its name tells ({model.quantisation})"
    return Note(code="told-by-name", message=message, remedy="plan again where the hub can be reached")

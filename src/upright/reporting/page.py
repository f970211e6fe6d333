"""Records of a deployment -> one HTML file that needs no network and says where every number came from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from upright import __version__, units
from upright.records.base import Record
from upright.records.box import Box
from upright.records.deployment import Deployment
from upright.records.evidence import Evidence, Observation
from upright.records.model import Model
from upright.records.plan import Plan
from upright.records.recipe import Recipe


@dataclass(frozen=True)
class Subject:
    """What a page is about: the records of one deployment."""

    box: Box
    model: Model
    plan: Plan
    recipe: Recipe
    deployment: Deployment
    evidence: Evidence | None


def report(subject: Subject) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"memory": units.memory, "size": units.size, "tokens": units.tokens}
    template = environment.from_string(files("upright.reporting").joinpath("page.html.j2").read_text())
    return template.render(
        version=__version__,
        box=subject.box,
        model=subject.model,
        plan=subject.plan,
        recipe=subject.recipe,
        deployment=subject.deployment,
        evidence=subject.evidence,
        groups=_groups(subject.model),
        devices=_devices(subject.plan),
        answers=[_answer(item) for item in subject.evidence.observations] if subject.evidence else [],
        chain=_chain(subject),
    )


@dataclass(frozen=True)
class Share:
    """A named part of a whole, for a bar."""

    name: str
    bytes: int
    percent: float
    note: str = ""


def _groups(model: Model) -> list[Share]:
    totals: dict[str, int] = defaultdict(int)
    dtypes: dict[str, set[str]] = defaultdict(set)
    for line in model.weights:
        totals[line.group] += line.bytes
        dtypes[line.group].add(line.dtype)
    whole = sum(totals.values()) or 1
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return [
        Share(name.replace("_", " "), count, 100 * count / whole, ", ".join(sorted(dtypes[name])))
        for name, count in ordered
    ]


def _devices(plan: Plan) -> list[tuple[str, int, list[Share]]]:
    """(device, capacity, parts) in the plan's order."""
    return [
        (
            budget.device,
            budget.capacity_bytes,
            [
                Share(line.term, line.bytes, 100 * line.bytes / max(budget.capacity_bytes, 1))
                for line in plan.ledger
                if line.device == budget.device
            ],
        )
        for budget in plan.budgets
    ]


def _answer(item: Observation) -> dict[str, str]:
    messages = item.request.get("messages") or [{}]
    choices = (item.response or {}).get("choices") or [{}]
    return {
        "check": item.check,
        "rung": item.rung,
        "verdict": item.verdict,
        "reason": item.reason,
        "seconds": units.duration(item.seconds),
        "asked": str(messages[-1].get("content", "")),
        "answered": str((choices[0].get("message") or {}).get("content") or "(nothing)"),
    }


def _chain(subject: Subject) -> list[tuple[str, str]]:
    records: list[Record | None] = [
        subject.box, subject.model, subject.plan, subject.recipe, subject.deployment, subject.evidence,
    ]  # fmt: skip
    return [(record.kind, record.digest) for record in records if record is not None]

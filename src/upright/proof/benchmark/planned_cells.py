"""The plan of a deployment + the time there is -> the shapes whose speeds tell most of it."""

from __future__ import annotations

from dataclasses import replace

from upright.base.errors import UsageError
from upright.facts.records.benchmark import Shape
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.store import DeploymentDir
from upright.planning.requests.calibrating import measurement_plan
from upright.planning.speed.campaign import REQUESTS_EACH
from upright.proof.benchmark.sweep import SweepRequest
from upright.proof.benchmark.workload import workload


def planned_cells(asked: SweepRequest, directory: DeploymentDir) -> SweepRequest:
    """As it was asked for, unless its workload leaves the cells to the plan."""
    if not asked.workload.planned:
        return asked
    if tuple(workload(asked.workload.name).shapes()) != asked.shapes:
        raise UsageError(f"{asked.workload.name} chooses its own cells", hint="--budget and --repeats say how many")
    if not (directory.path / "plan.json").exists():
        raise UsageError(
            f"{asked.workload.name} follows a plan, and nobody planned this endpoint", hint="upright bench DEPLOYMENT"
        )
    assert asked.budget_seconds is not None
    plan, model, box = directory.read(Plan), directory.read(Model), directory.read(Box)
    cells = measurement_plan(plan, model, box, asked.budget_seconds, asked.repeats).cells
    expected_seconds = {
        Shape(
            prompt_tokens=cell.prompt_tokens,
            output_tokens=cell.output_tokens,
            concurrency=cell.users,
            requests=REQUESTS_EACH * cell.users,
        ): cell.seconds
        for cell in cells
    }
    return replace(asked, shapes=tuple(expected_seconds), expected_seconds=expected_seconds)

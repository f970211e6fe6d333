"""An engine -> the starts that its recipes would make: every model of the catalogue on boxes of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from upright.engines.constraints import circumstances, plan_situation
from upright.engines.constraints.situation import Situation
from upright.engines.constraints.start_code import start_key
from upright.facts import catalog
from upright.facts.catalog.recorded_starts import StartKey
from upright.facts.records.plan import Goal
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named
from upright.planning.requests.plan_request import PlanRequest, plan_request

BOXES = (
    "8x-h100-sxm", "8x-rtx-pro-6000-server", "hgx-b200", "1x-rtx-pro-6000-server", "2x-rtx-pro-6000-server",
    "4x-rtx-pro-6000-server", "8x-h200-sxm", "8x-a100-sxm-80gb", "1x-h100-sxm", "2x-h100-sxm", "4x-h100-sxm",
    "1x-rtx-5090", "2x-rtx-5090", "8x-rtx-5090", "dgx-spark", "1x-rtx-3090", "2x-rtx-3090", "4x-rtx-3090",
    "8x-rtx-3090", "1x-rtx-4090", "2x-rtx-4090", "4x-l40s", "8x-l40s", "1x-a100-sxm-80gb", "2x-a100-sxm-80gb",
    "4x-a100-sxm-80gb", "1x-b200-sxm", "4x-b200-sxm", "8x-b300-sxm", "6x-h100-sxm", "6x-rtx-pro-6000-server",
)  # fmt: skip
"""Each architecture and number of cards, the most asked for first."""


class PlannedStart(NamedTuple):
    """What one recipe would start."""

    model: str
    artifact: str
    box: str
    situation: Situation
    key: StartKey | None
    """None if no question says it: its configuration is not recorded."""


def planned_starts(engine: str, boxes: Iterable[str] = BOXES) -> Iterator[PlannedStart]:
    for name in boxes:
        box = box_named(NamedBox(name))
        for model in catalog.rows("models"):
            planned = plan_request(
                PlanRequest(artifacts_of(model), box, Goal(engine=engine)), advise=lambda best: False
            )
            best, artifact = planned.best, planned.artifact
            if not best.fits:
                continue
            about = circumstances(artifact, box)
            situation = plan_situation(engine, best.engine_version, about, best.parallel, best.kv.dtype)
            yield PlannedStart(model, artifact.source, name, situation, start_key(situation))

"""What the site's page can choose from, and answers planned before anybody asks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

from upright import __version__
from upright.app.site.page_answers import answer, plan_answer
from upright.base.units import GIB
from upright.engines import ENGINES
from upright.facts import catalog
from upright.facts.catalog.loader import KINDS, files
from upright.planning.memory.kvcache import CACHE_TYPES
from upright.planning.rendering.targets import TARGETS
from upright.planning.requests.library import artifact_choice_for, box_record
from upright.planning.requests.plan_request import PlanRequest, plan_request

First = Literal["none", "presets", "all"]
PRESETS = (
    "8x-rtx-pro-6000-workstation",
    "4x-rtx-pro-6000-workstation",
    "2x-rtx-pro-6000-workstation",
    "1x-rtx-pro-6000-workstation",
    "8x-rtx-5090",
    "2x-rtx-5090",
    "1x-rtx-5090",
    "dgx-spark",
    "hgx-h200",
    "hgx-b200",
)
"""Boxes that people have; the others are planned in the page."""
_TOLD_EVERY = 50


def catalogue_version() -> str:
    """Of every row that an answer may depend on."""
    digest = hashlib.sha256(__version__.encode())
    for kind in KINDS:
        for path, owner in files(kind):
            if owner == "upright":
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def choices(first: First) -> dict[str, Any]:
    """What the page offers to choose from."""
    return {
        "version": __version__,
        "catalogue": catalogue_version(),
        "models": [_model(row) for row in sorted(catalog.models(), key=lambda row: (row.maker.lower(), row.name))],
        "boxes": [
            {
                "id": row.id,
                "name": row.name,
                "gpu": row.gpu,
                "gpus": row.gpu_count,
                "first": row.id in first_boxes(first),
            }
            for row in catalog.boxes()
        ],
        "gpus": [{"id": row.id, "name": row.name.removeprefix("NVIDIA ")} for row in catalog.gpus()],
        "engines": [{"id": name, "title": engine.title} for name, engine in ENGINES.items()],
        "cache_types": list(CACHE_TYPES),
        "targets": list(TARGETS),
        "gib": GIB,
    }


def first_boxes(first: First) -> tuple[str, ...]:
    if first == "none":
        return ()
    known = tuple(row.id for row in catalog.boxes())
    return known if first == "all" else tuple(box for box in PRESETS if box in known)


def first_answers(first: First, told: Callable[[str], None]) -> Iterator[tuple[str, str, str]]:
    """Model, box and the answer to what the page asks when it opens; of the plans the best one alone."""
    cases = [(row.id, box) for row in catalog.models() for box in first_boxes(first)]
    for done, (model, box) in enumerate(cases):
        if done % _TOLD_EVERY == 0:
            told(f"first answers: {done} of {len(cases)}")
        yield model, box, first_answer(model, box)


def recommended(box: str) -> str:
    """The answer to what Recommend asks of a box as it is, which the page's own planner thinks of for seconds."""
    return answer(json.dumps({"ask": "recommend", "box": box}))


def first_answer(model: str, box: str) -> str:
    """As JSON, as short as it can be written."""
    planned = plan_request(PlanRequest(artifact_choice_for(model), box_record(box)))
    best = plan_answer(planned, planned.plans[:1], (model, "--box", box))
    return json.dumps(best, ensure_ascii=False, separators=(",", ":"))


def _model(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "maker": row.maker,
        "parameters": row.parameters.value,
        "active": row.active_parameters.value,
    }

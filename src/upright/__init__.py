"""Upright gets a frontier mixture-of-experts model standing on the box you have, and proves that it stands.

The public API is the verbs and the records named in `__all__`; they load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "Benchmark": "upright.facts.records.benchmark",
    "bench": "upright.proof.benchmark.bench",
    "Box": "upright.facts.records.box",
    "Deployment": "upright.facts.records.deployment",
    "Evidence": "upright.facts.records.evidence",
    "Figure": "upright.facts.records.base",
    "Goal": "upright.facts.records.plan",
    "Model": "upright.facts.records.model",
    "Plan": "upright.facts.records.plan",
    "Recipe": "upright.facts.records.recipe",
    "Recommendation": "upright.facts.records.recommendation",
    "Residuals": "upright.facts.records.residuals",
    "UprightError": "upright.base.errors",
    "plan": "upright.planning.requests.library",
    "probe": "upright.planning.probing",
    "read": "upright.models.reading",
    "recommend": "upright.planning.requests.library",
    "bundle": "upright.evidence.bundle",
    "read_back": "upright.serving.launch.readback",
    "read_bundle": "upright.evidence.bundle",
    "compare": "upright.planning.requests.comparison",
    "connect": "upright.serving.connect",
    "fetch": "upright.serving.fetch",
    "launch": "upright.serving.launch",
    "load": "upright.facts.records.loading",
    "prove": "upright.proof.ladder",
    "render": "upright.planning.requests.library",
    "report": "upright.evidence.report",
    "restart": "upright.serving.launch",
    "stop": "upright.serving.launch",
}

__all__ = [
    "Benchmark",
    "Box",
    "Deployment",
    "Evidence",
    "Figure",
    "Goal",
    "Model",
    "Plan",
    "Recipe",
    "Recommendation",
    "Residuals",
    "UprightError",
    "__version__",
    "bench",
    "bundle",
    "compare",
    "connect",
    "fetch",
    "launch",
    "load",
    "plan",
    "probe",
    "prove",
    "read",
    "read_back",
    "read_bundle",
    "recommend",
    "render",
    "report",
    "restart",
    "stop",
]

if TYPE_CHECKING:
    from upright.base.errors import UprightError
    from upright.evidence.bundle import bundle, read_bundle
    from upright.evidence.report import report
    from upright.facts.records.base import Figure
    from upright.facts.records.benchmark import Benchmark
    from upright.facts.records.box import Box
    from upright.facts.records.deployment import Deployment
    from upright.facts.records.evidence import Evidence
    from upright.facts.records.loading import load
    from upright.facts.records.model import Model
    from upright.facts.records.plan import Goal, Plan
    from upright.facts.records.recipe import Recipe
    from upright.facts.records.recommendation import Recommendation
    from upright.facts.records.residuals import Residuals
    from upright.models.reading import read
    from upright.planning.probing import probe
    from upright.planning.requests.comparison import compare
    from upright.planning.requests.library import plan, recommend, render
    from upright.proof.benchmark.bench import bench
    from upright.proof.ladder import prove
    from upright.serving.connect import connect
    from upright.serving.fetch import fetch
    from upright.serving.launch import launch, restart, stop
    from upright.serving.launch.readback import read_back


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'upright' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Upright gets a frontier mixture-of-experts model standing on the box you have, and proves that it stands.

The public API is the verbs and the records named in `__all__`; they load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "Benchmark": "upright.records.benchmark",
    "bench": "upright.benchmarking.bench",
    "Box": "upright.records.box",
    "Deployment": "upright.records.deployment",
    "Evidence": "upright.records.evidence",
    "Figure": "upright.records.base",
    "Goal": "upright.records.plan",
    "Model": "upright.records.model",
    "Plan": "upright.records.plan",
    "Recipe": "upright.records.recipe",
    "Recommendation": "upright.records.recommendation",
    "Residuals": "upright.records.residuals",
    "UprightError": "upright.errors",
    "plan": "upright.requesting.library",
    "probe": "upright.probing",
    "read": "upright.reading",
    "recommend": "upright.requesting.recommended",
    "bundle": "upright.bundling",
    "read_back": "upright.launching.readback",
    "read_bundle": "upright.bundling",
    "compare": "upright.requesting.compared",
    "connect": "upright.connecting",
    "fetch": "upright.fetching",
    "launch": "upright.launching",
    "load": "upright.records.loading",
    "prove": "upright.proving",
    "render": "upright.requesting.library",
    "report": "upright.reporting",
    "restart": "upright.launching",
    "stop": "upright.launching",
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
    from upright.benchmarking.bench import bench
    from upright.bundling import bundle, read_bundle
    from upright.connecting import connect
    from upright.errors import UprightError
    from upright.fetching import fetch
    from upright.launching import launch, restart, stop
    from upright.launching.readback import read_back
    from upright.probing import probe
    from upright.proving import prove
    from upright.reading import read
    from upright.records.base import Figure
    from upright.records.benchmark import Benchmark
    from upright.records.box import Box
    from upright.records.deployment import Deployment
    from upright.records.evidence import Evidence
    from upright.records.loading import load
    from upright.records.model import Model
    from upright.records.plan import Goal, Plan
    from upright.records.recipe import Recipe
    from upright.records.recommendation import Recommendation
    from upright.records.residuals import Residuals
    from upright.reporting import report
    from upright.requesting.compared import compare
    from upright.requesting.library import plan, render
    from upright.requesting.recommended import recommend


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'upright' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Plan + Model + Box -> Recipe: nothing left to decide, a reason for every flag."""

from __future__ import annotations

from upright.engines import engine_named
from upright.engines.engine import Serving
from upright.errors import EngineError
from upright.records.box import Box
from upright.records.model import Model
from upright.records.plan import Plan
from upright.records.recipe import Recipe

LOOPBACK = "127.0.0.1"


def render(plan: Plan, model: Model, box: Box, *, model_path: str, port: int, host: str = LOOPBACK) -> Recipe:
    """The command for this plan, with the engine that is installed on this box."""
    engine = engine_named(plan.engine)
    program = next((found.program for found in box.engines if found.engine == plan.engine), None)
    if program is None:
        raise EngineError(f"{plan.engine} is not on {box.name}", hint=f"get it from {engine.where_from}")
    serving = Serving(model_path=model_path, served_name=model.name, host=host, port=port)
    return Recipe(
        made_from=(plan.reference, model.reference, box.reference),
        engine=plan.engine,
        engine_version=plan.engine_version,
        runtime="process",
        program=program,
        arguments=engine.arguments(plan, model, box, serving),
        environment=engine.environment(plan, model, box),
        model_path=model_path,
        served_name=serving.served_name,
        host=host,
        port=port,
        context_tokens=plan.context_tokens,
        users=plan.goal.users,
        health_path=engine.health_path,
        metrics_path=engine.metrics_path,
    )

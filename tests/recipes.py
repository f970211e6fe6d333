"""Plans and command lines over the catalogue, for tests that sweep boxes x models x goals x versions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from upright.engines import engine_named
from upright.engines.facets.flags import FlagCase, Serving, accepted
from upright.facts import catalog
from upright.facts.catalog.model_records import records, row_of
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.planning.choosing import plan

BOXES = (
    "8x-rtx-pro-6000-server-dual-socket",
    "hgx-b200-lambda",
    "2x-rtx-pro-6000-max-q-epyc-9175f",
    "8x-rtx-pro-6000-workstation",
    "4x-rtx-pro-6000-workstation",
)
MACS = ("m4-max", "m3-ultra")
"""Of an engine that is offered nowhere else."""
GOALS = (
    Goal(),
    Goal(context_tokens=131_072, draft=True),
    Goal(users=32, context_tokens=8_192, use="batch"),
    Goal(kv_dtype="fp8", draft=True, users=4),
    Goal(nodes=2, link="ethernet-100g"),
)
FEW = (
    "Kimi-K2.6",
    "Kimi-K2-Thinking-NVFP4",
    "GLM-5-NVFP4",
    "gpt-oss-120b",
    "Kimi-K2.6-GGUF:IQ3_K",
    "Kimi-K2.6-MLX-3.3bit",
    "GLM-4.7-Flash-4bit",
)


@cache
def box(name: str) -> Box:
    return catalog.box_record(name)


@cache
def artifacts() -> tuple[Model, ...]:
    return tuple(model for row in catalog.models() for model in records(row))


@cache
def plans(engine: str, *, few: bool) -> tuple[tuple[Plan, Model, Box], ...]:
    """Whether a plan fits decides no flag, so all are taken."""
    boxes, goals = (BOXES[:3], (*GOALS[:2], GOALS[-1])) if few else (BOXES, GOALS)
    boxes = MACS if engine_named(engine).only_there else boxes
    return tuple(
        (made, model, box(name))
        for name in boxes
        for model in artifacts()
        for goal in goals
        if not few or model.name in FEW
        if (made := _planned(engine, model, goal, box(name))) is not None
    )


def cases(engine: str, version: str, *, few: bool = True) -> Iterator[FlagCase]:
    for made, model, where in plans(engine, few=few):
        versioned = made.model_copy(update={"engine_version": version})
        for vision, node in ((False, 0), (True, made.parallel.nodes - 1)):
            serving = Serving(model.source, model.name, "127.0.0.1", 8000, vision=vision, node=node)
            yield FlagCase(versioned, model, where, serving, row_of(model), accepted(engine, version, where))


def command_lines(engine: str, version: str, *, few: bool = True) -> set[tuple[str, ...]]:
    """Distinct command lines, without the program."""
    found = set()
    for case in cases(engine, version, few=few):
        settings = engine_named(engine).flags.arguments(case)
        found.add(tuple(word for each in settings for word in (each.name, each.value) if word is not None))
    return found


def _planned(engine: str, model: Model, goal: Goal, where: Box) -> Plan | None:
    wanted = goal.model_copy(update={"engine": engine})
    if model.format == "gguf":
        wanted = wanted.model_copy(update={"kv_dtype": "q8_0" if goal.kv_dtype else None, "draft": False})
    made = plan(where, model, wanted)[0]
    return None if any(each.code == "wrong-format" for each in made.objections) else made

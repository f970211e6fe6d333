"""Answers to the page's questions, as JSON: what the page's worker calls.

The same requests as the command line's, so `record` is what `--json` prints there and `words` its page. No network;
the only files are those that the visitor dropped, of which headers are read.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache, singledispatch
from typing import Any

from pydantic import TypeAdapter, ValidationError

from upright.app.site.page_questions import (
    CompareQuestion,
    DiagnoseQuestion,
    InsteadQuestion,
    PageBox,
    PageCase,
    PlanQuestion,
    Question,
    RecipeQuestion,
    RecommendQuestion,
    SpeedQuestion,
)
from upright.base.errors import UprightError, UsageError
from upright.base.terminal.safe_output import uncoloured
from upright.base.untrusted_text import escape_controls, on_one_line
from upright.facts.records.base import Part
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.models.deriving.named_builds import build_by_name
from upright.planning.choosing.artifacts import ArtifactChoice, artifact_choice
from upright.planning.requests.library import on_boxes
from upright.planning.requests.plan_arguments import NamedBox, owner_figures
from upright.planning.requests.plan_request import PlannedRequest, PlanRequest, plan_request

Answer = dict[str, Any]
DROPPED = "/dropped/"
"""Where the worker puts what the visitor drops."""
SHOWN = 6
"""Plans of an answer, as many as the command line's --json has."""
_WIDTH, _WIDE = 58, 96
"""Columns of the command line's page: beside the pictures, or below a table."""
_PORT = 8000
_LONGEST_FAULT = 2000
_QUESTION: TypeAdapter[Question] = TypeAdapter(Question)
_TELL: ContextVar[Callable[[str], object]] = ContextVar("_TELL")


def answer(message: str, tell: Callable[[str], object] = lambda _: None) -> str:
    """JSON in, JSON out; what cannot be answered is an answer too, with what would be right.

    `tell` hears in words how far an answer is that takes seconds.
    """
    asking = _TELL.set(tell)
    try:
        return json.dumps(_answer(_QUESTION.validate_json(message)), ensure_ascii=False)
    except UprightError as error:
        refusal = {"message": escape_controls(error.message), "hint": error.hint and escape_controls(error.hint)}
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"][1:]))
        refusal = {"message": on_one_line(f"{where}: {fault['msg']}", _LONGEST_FAULT), "hint": None}
    finally:
        _TELL.reset(asking)
    return json.dumps({"error": refusal}, ensure_ascii=False)


@singledispatch
def _answer(question: Part) -> Answer:
    raise UsageError(f"no question {type(question).__name__}")


@_answer.register
def _plan(question: PlanQuestion) -> Answer:
    planned = _planned(question)
    return plan_answer(planned, planned.plans[:SHOWN], _options(question, question.model))


@_answer.register
def _speed(question: SpeedQuestion) -> Answer:
    best = _planned(question).best
    return {"fits": best.fits, "speed": best.speed.model_dump(mode="json") if best.speed else None}


@_answer.register
def _instead(question: InsteadQuestion) -> Answer:
    from upright.app.pages.plan_page import configuration

    planned = _planned(question)
    own = planned.of_own_type()
    others = [*([own] if own else ()), *planned.instead()]
    return {
        "others": [{"model": other.model, "configuration": configuration(other), **_brief(other)} for other in others]
    }


@_answer.register
def _recipe(question: RecipeQuestion) -> Answer:
    from upright.planning.rendering.command import command_text
    from upright.planning.rendering.recipe import RenderOptions
    from upright.planning.requests.preparation import prepare

    prepared = prepare(_request(question), _path, port=_PORT, wishes=RenderOptions(must_be_installed=False))
    command = shlex.join(("upright", "render", *_options(question, question.model)))
    if prepared.recipe is None:
        return {"record": None, "objections": [part.model_dump(mode="json") for part in prepared.plan.objections]}
    recipes = [prepared.recipe, *prepared.followers]
    return {
        "record": prepared.recipe.to_dict(),
        "text": "".join(map(command_text, recipes)),
        "targets": _targets(recipes),
        "command": command,
        "continue": shlex.join(("upright", "up", *_options(question, question.model, among=_OF_UP, machine=False))),
    }


@_answer.register
def _recommend(question: RecommendQuestion) -> Answer:
    from upright.app.pages.recommend_page import recommend_page
    from upright.planning.requests.library import recommend

    tell = _TELL.get()
    recommendation = recommend(
        *_box(question, question.goal), tell=lambda count: tell(f"{count} models looked at, best first")
    )
    return {
        "record": recommendation.to_dict(),
        "words": uncoloured(recommend_page(recommendation, _WIDE)),
        "command": shlex.join(("upright", "recommend", *_options(question))),
    }


@_answer.register
def _compare(question: CompareQuestion) -> Answer:
    from upright.app.pages.compare_page import compare_page
    from upright.planning.recommending.comparison import Prices
    from upright.planning.requests.comparison import compare_requests

    typed = question.kilowatt_hour, question.api_million
    requests = [PlanRequest(_chosen(part.model), *_box(part, question.goal)) for part in question.columns]
    prices = [Prices(part.purchase, part.rent_hour, part.watts, *typed) for part in question.columns]
    comparison = compare_requests(requests, prices)
    return {"record": comparison.to_dict(), "words": uncoloured(compare_page(comparison, _WIDE))}


@_answer.register
def _diagnose(question: DiagnoseQuestion) -> Answer:
    from upright.app.pages.diagnosis_page import diagnosis_page
    from upright.serving.diagnose import LogContext, diagnose

    log = io.BytesIO(question.log.encode("utf-8", "replace"))
    diagnosis = diagnose(log, subject="what was piped in", around=LogContext(engine=question.engine))
    return {"record": diagnosis.to_dict(), "words": uncoloured(diagnosis_page(diagnosis, _WIDTH))}


def plan_answer(planned: PlannedRequest, plans: Sequence[Plan], options: Sequence[str]) -> Answer:
    """The record as `plan --json` prints it, and what the page draws of the best plan."""
    from upright.app.pages.plan_page import PARTS, configuration, device_groups, part_bytes, plan_page, verdict

    best, choice, placed = planned.best, planned.request.choice, planned.placements()
    return {
        "record": planned.answer(plans, placed),
        "view": {
            "verdict": uncoloured(verdict(best, planned.ram_unknown)),
            "configuration": configuration(best),
            "bars": [
                {
                    "names": names,
                    "capacity_bytes": sum(part.capacity_bytes for part in best.budgets if part.device == devices[0]),
                    "used_bytes": best.used_bytes(devices[0]),
                    "high_bytes": best.high_bytes(devices[0]),
                    "parts": [{"name": part.name, "bytes": part_bytes(best, devices[0], part)} for part in PARTS],
                }
                for names, devices in device_groups(best)
            ],
            "pinned": _pinned(best),
            "more": not best.fits and not planned.offers(),
        },
        "words": uncoloured(
            plan_page(planned.plans, choice, _WIDTH, None, placed=placed, ram_unknown=planned.ram_unknown)
        ),
        "command": shlex.join(("upright", "plan", *options)),
    }


def _pinned(plan: Plan) -> Answer:
    """The plan's configuration as wishes of a goal: with them only context and users change along a curve."""
    from upright.planning.placement.engine_support import ranks_of

    layout, pinned = plan.parallel, {"engine": plan.engine, "kv_dtype": plan.kv.dtype}
    if ranks_of(plan.engine) is None:
        return pinned
    return {
        **pinned,
        "tensor_parallel": layout.tensor,
        "pipeline_parallel": layout.pipeline,
        "decode_context_parallel": layout.decode_context,
    }


def _brief(plan: Plan) -> Answer:
    speed = plan.speed.decode.model_dump(mode="json") if plan.speed else None
    return {"context_tokens": plan.context_tokens, "cache_tokens": plan.kv.low_tokens, "decode": speed}


def _targets(recipes: Sequence[Any]) -> list[Answer]:
    """Every way to write it down; one that cannot be says why."""
    from upright.planning.rendering.targets import TARGETS, rendered_files

    targets: list[Answer] = []
    for name in TARGETS:
        try:
            targets.append({"target": name, "files": rendered_files(recipes, name)})
        except UprightError as error:
            targets.append({"target": name, "why_not": error.message})
    return targets


def _planned(question: PageCase) -> PlannedRequest:
    return plan_request(_request(question))


def _request(question: PageCase) -> PlanRequest:
    box, goal = _box(question, question.goal)
    return PlanRequest(_chosen(question.model), box, goal)


def _chosen(model: str) -> ArtifactChoice:
    from upright.models.reading import read

    return ArtifactChoice(read(model)) if model.startswith(DROPPED) else _in_catalogue(model)


@lru_cache(maxsize=64)
def _in_catalogue(model: str) -> ArtifactChoice:
    """A page's catalogue does not change, and a slider asks for the same model again."""
    return artifact_choice(model, _unknown)


def _unknown(model: str) -> Model:
    if (build := build_by_name(model)) is not None:
        return build
    raise UsageError(
        f"the catalogue does not know {model}", hint="paste its config.json, or drop its GGUF: nothing is fetched here"
    )


def _box(named: PageBox, goal: Goal) -> tuple[Box, Goal]:
    box, goal = on_boxes(named.box, goal)
    return box.model_copy(update=owner_figures(NamedBox(memory_gib=named.memory_gib), box)), goal


def _path(artifact: Model) -> str:
    """What the visitor dropped is somewhere on the machine that will serve it; the page does not know where."""
    from upright.planning.requests.preparation import named_path

    return named_path(artifact.model_copy(update={"path": None}))


def _options(named: PageBox, *first: str, among: Sequence[str] | None = None, machine: bool = True) -> list[str]:
    """The same as words of the command line; at the box itself without the machine."""
    goal = getattr(named, "goal", Goal())
    ram = [] if named.memory_gib is None else ["--ram", f"{named.memory_gib:g}GB"]
    spelled = [*(name.removeprefix(DROPPED) for name in first), *(["--box", named.box, *ram] if machine else [])]
    for field, option in _SPELLED.items():
        wish = getattr(goal, field) if among is None or field in among else None
        if wish not in (None, False, Goal.model_fields[field].default):
            spelled += [option] if wish is True else [option, f"{wish:g}" if isinstance(wish, float) else str(wish)]
    return spelled


_OF_UP = ("context_tokens", "users", "engine", "place")
"""Wishes that `up` takes."""
_SPELLED: dict[str, str] = {
    "context_tokens": "--context",
    "users": "--users",
    "use": "--use",
    "minimum_tokens_per_second": "--min-speed",
    "first_answer_seconds": "--first-answer",
    "engine": "--engine",
    "kv_dtype": "--kv-dtype",
    "tensor_parallel": "--tp",
    "pipeline_parallel": "--pp",
    "data_parallel": "--dp",
    "decode_context_parallel": "--dcp",
    "memory_fraction": "--gpu-memory-utilization",
    "sequences": "--max-num-seqs",
    "batched_tokens": "--max-num-batched-tokens",
    "place": "--place",
    "draft": "--draft",
    "nodes": "--nodes",
    "link": "--link",
}

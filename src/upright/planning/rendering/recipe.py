"""Plan + Model + Box -> Recipe: nothing left to decide, a reason for every flag."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from upright.base.errors import EngineError, UsageError
from upright.engines import advisories, engine_named
from upright.engines.constraints import breach_notes as constraint_notes
from upright.engines.constraints import circumstances
from upright.engines.constraints import refuse_breaches as refuse_forbidden
from upright.engines.contract import Engine
from upright.engines.facets.finding import Finding, ProgramFinding
from upright.engines.facets.flags import FlagCase, Serving, accepted
from upright.engines.facets.releases import Releases
from upright.engines.gpu_settings import shown_gpus
from upright.engines.model_settings import draft_path
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import PASSED_VALUE, UNKNOWN_FOLDER, Recipe, Runtime, Setting
from upright.planning.rendering.image import (
    SM12_CACHE_PATCH,
    Image,
    image_named,
    image_notes,
    upstream_image,
    with_arguments,
    with_variables,
)

LOOPBACK = "127.0.0.1"
_BUILD = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}:[\w.-]{1,64}")


@dataclass(frozen=True)
class RenderOptions:
    """What the person may say beyond the plan. What is None follows from plan and catalogue."""

    host: str = LOOPBACK
    served_name: str | None = None
    vision: bool = False
    prefix_caching: bool = True
    image: str | None = None
    """A row of the catalogue, or what `docker pull` takes."""
    patched: bool = False
    """The image or build is known to carry the community's patches for SM 12.x."""
    draft_path: str | None = None
    node: int = 0
    """Which of the boxes that hold the model together; 0 leads."""
    leader: str = "node-0"
    """Where the others reach the first of them."""
    runtime: Runtime = "process"
    must_be_installed: bool = True
    """Refuse to name a program that the box has not."""


def render(
    plan: Plan, model: Model, box: Box, *, model_path: str, port: int, wishes: RenderOptions | None = None
) -> Recipe:
    """The command for this plan, with the engine that is installed on this box, or by its bare name."""
    wishes = wishes or RenderOptions()
    engine = engine_named(plan.engine)
    named = wishes.image or plan.goal.image
    install = (
        None
        if named
        else next((engine_install for engine_install in box.engines if engine_install.engine == plan.engine), None)
    )
    if wishes.must_be_installed and not named:
        refuse_blind_variable(engine.finding, box)
    if install is None and wishes.must_be_installed and not named:
        raise EngineError(f"{plan.engine} is not on {box.name}", hint=f"get it from {engine.where_from}")
    version = plan.engine_version or next(reversed(recorded_versions(plan.engine)), None)
    image = image_named(named) if named else _upstream(engine.releases, version)
    row = image.row if image else None
    if row is not None:
        version = plan.engine_version or row.version
    runtime: Runtime = "docker" if named and wishes.runtime == "process" else wishes.runtime
    from_hub = (
        runtime == "process"
        and engine.fetches_builds
        and model_path.startswith(UNKNOWN_FOLDER)
        and _BUILD.fullmatch(model.source) is not None
    )
    model_path = model.source if from_hub else model_path
    serving = Serving(
        model_path=model_path,
        from_hub=from_hub,
        served_name=_served_name(engine, wishes) or model.name,
        host=wishes.host,
        port=port,
        vision=wishes.vision,
        prefix_caching=wishes.prefix_caching,
        patched=wishes.patched or (image is not None and image.patched),
        image=row,
        draft_path=wishes.draft_path,
        node=wishes.node,
        leader=wishes.leader,
    )
    known = accepted(plan.engine, (row and row.near_version) or version, None if named else box)
    shown = plan.box_in_use(box)
    case = FlagCase(plan, model, shown, serving, row_of(model), known, install)
    arguments = engine.flags.arguments(case)
    if not serving.prefix_caching:
        kept = case._replace(serving=serving._replace(prefix_caching=True))
        if engine.flags.arguments(kept) == arguments:
            raise UsageError(f"{plan.engine} has no option that turns prefix caching off")
    made = Recipe(
        made_from=(plan.reference, model.reference, box.reference),
        engine=plan.engine,
        engine_version=version,
        engine_commit=row.commit if row else None,
        circumstances=circumstances(model, shown, named, (SM12_CACHE_PATCH,) if serving.patched else ()),
        runtime=runtime,
        program=install.program if install else engine.program,
        installed=install is not None,
        image=image.reference if image else None,
        image_about=image.about if image else None,
        image_program=row.program if row else None,
        packages=row.packages if row else (),
        key_way=engine.http.key_way,
        arguments=with_arguments(arguments, case),
        environment=with_variables((*engine.flags.environment(case), *shown_gpus(plan, box)), case),
        model_path=model_path,
        draft=draft_path(case),
        served_name=serving.served_name,
        host=serving.host,
        port=port,
        context_tokens=plan.context_tokens,
        users=plan.goal.users,
        health_path=engine.http.health_path,
        metrics_path=engine.http.metrics_path,
        gpus=_gpus(plan, shown),
        memory_limit_bytes=_memory_limit(plan, box),
        nodes=plan.parallel.nodes,
        node=wishes.node,
        notes=(*engine.flags.notes(case), *_draft_notes(draft_path(case)), *image_notes(row)),
    )
    advisories.refuse_advisories(made)
    refuse_forbidden(made)
    return made.model_copy(update={"notes": (*made.notes, *advisories.notes(made), *constraint_notes(made))})


def _served_name(engine: Engine, wishes: RenderOptions) -> str | None:
    only, wanted = engine.http.only_name, wishes.served_name
    if only and wanted not in (None, only):
        hint = f"clients ask for {only}"
        raise UsageError(f"{engine.name} takes any other name than {only} for a model to load", hint=hint)
    return only or wanted


def _draft_notes(draft: str | None) -> tuple[str, ...]:
    return (f"The draft model is loaded besides: fetch it too (upright fetch {draft}).",) if draft else ()


def with_variables_passed(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The same recipe with these variables of the person's environment."""
    why = "asked for with --env: handed on from your environment"
    more = tuple(Setting(name=name, value=PASSED_VALUE, reason=why) for name in names if name not in recipe.passed)
    return recipe.model_copy(update={"environment": (*recipe.environment, *more)}) if more else recipe


def refuse_blind_variable(finding: Finding | None, box: Box) -> None:
    """A person who names a program that is not there means no other one."""
    for setting in box.settings:
        if isinstance(finding, ProgramFinding) and setting.name == finding.variable:
            raise EngineError(f"{setting.name} {setting.state}", hint=setting.change)


def _memory_limit(plan: Plan, box: Box) -> int | None:
    """All but what the plan keeps for the system; None where the GPUs have memory of their own."""
    reserve = sum(line.bytes for line in plan.ledger if line.term == "host_reserve")
    total = int(box.memory_bytes.value or 0) or sum(int(gpu.memory_bytes.value or 0) for gpu in box.gpus)
    return total - reserve if reserve and total > reserve else None


def _gpus(plan: Plan, box: Box) -> int:
    """A rank takes one; engines that place layers take all there are, and have no fraction."""
    if plan.memory_fraction is None:
        return len(box.gpus)
    return min(len(box.gpus), plan.parallel.ranks // plan.parallel.nodes)


def _upstream(releases: Releases | None, version: str | None) -> Image | None:
    reference = releases.image(version) if version and releases and releases.image else None
    return upstream_image(reference) if reference else None

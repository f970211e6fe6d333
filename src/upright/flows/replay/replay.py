"""Replays a claim on this machine: what differs, the same load cell by cell, and a bundle that says so.

Nothing in a bundle becomes a command: it gives a goal, names, numbers and shapes of load. The command is rendered here.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upright.base.errors import LaunchError, RecordError, UprightError, UsageError
from upright.base.host import LocalHost
from upright.base.progress import Tell
from upright.base.units import format_duration
from upright.base.untrusted_text import on_one_line
from upright.engines import ENGINES
from upright.evidence.share.index_requests import fetch_known_bundle
from upright.evidence.share.making_statements import SharedStatement, share
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.repeats import ComparedCell, OpenedBundle, compared_cells
from upright.evidence.share.verifying import Claim, read_claim
from upright.facts.records.benchmark import Api, Benchmark, Shape
from upright.facts.records.deployment import Deployment
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.flows.line.agent import ended_like_ctrl_c, signals_kept_off
from upright.flows.line.preparing import Prepared, prepare_model
from upright.flows.line.starting import register, start
from upright.flows.replay.differences import ReplayDifference, differences
from upright.flows.replay.recipe import DroppedSetting, replay_recipe
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named, measurements, weights_path
from upright.planning.requests.plan_request import PlanRequest
from upright.planning.requests.preparation import prepare
from upright.proof.benchmark.bench import bench, saved_benchmarks
from upright.proof.benchmark.endpoints import deployment_endpoint
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch
from upright.proof.benchmark.workload import workloads
from upright.proof.ladder.climbing import prove_deployment
from upright.proof.ladder.rung import ProofOptions
from upright.proof.ladder.rungs import RUNGS
from upright.serving.launch import stop
from upright.serving.launch.locks import without_restarts

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_MOST_SHAPES, _MOST_REPEATS, _MOST_AT_ONCE, _MOST_REQUESTS, _MOST_TOKENS = 24, 10, 1024, 10_000, 1 << 20
"""Of a load that a bundle asks for: beyond these it is not somebody's benchmark."""


@dataclass(frozen=True)
class ReplayLoad:
    """One benchmark of the claim, as it is measured again."""

    workload: str
    api: Api
    shapes: tuple[Shape, ...]
    repeats: int


@dataclass(frozen=True)
class ReplayOptions:
    """What the person says besides the bundle."""

    model: str | None
    """Where its weights are here."""
    box: str | None
    """Another box than this machine: then nothing is run."""
    flags: tuple[str, ...]
    """NAME=VALUE, or NAME of a switch."""
    port: int
    run: bool


@dataclass(frozen=True)
class ReplayPlan:
    """Everything that is known before anything is run."""

    opened: OpenedBundle
    prepared: Prepared
    differences: tuple[ReplayDifference, ...]
    left_out: tuple[DroppedSetting, ...]
    loads: tuple[ReplayLoad, ...]
    to: str | None
    """The highest rung that the claim climbed; None if it climbed none."""

    def told(self) -> dict[str, Any]:
        recipe = self.prepared.recipe
        return {
            "replays": self.opened.verification.identity, "level": self.opened.verification.level,
            "differences": [difference.model_dump(mode="json") for difference in self.differences],
            "left_out": [setting.model_dump(mode="json") for setting in self.left_out],
            "objections": [objection.message for objection in self.prepared.plan.objections],
            "command": list(recipe.argv) if recipe else None, "to": self.to,
            "shapes": [shape.model_dump(mode="json") for load in self.loads for shape in load.shapes],
        }  # fmt: skip


@dataclass(frozen=True)
class ReplayResult:
    """What came out."""

    plan: ReplayPlan
    cells: tuple[ComparedCell, ...]
    shared: SharedStatement

    @property
    def agrees(self) -> bool:
        return bool(self.cells) and all(cell.verdict == "agrees" for cell in self.cells)

    def told(self) -> dict[str, Any]:
        cells = [cell.model_dump(mode="json") for cell in self.cells]
        return {**self.plan.told(), "agrees": self.agrees, "cells": cells, "bundle": self.shared.told()}


def bundle_named(text: str) -> OpenedBundle:
    """A file, or the identity of a bundle that was searched in an index."""
    if Path(text).exists():
        return open_bundle(Path(text))
    if re.fullmatch(r"[0-9a-fA-F]{12,64}", text):
        return open_bundle(fetch_known_bundle(text)[0])
    raise UsageError(f"there is no bundle {on_one_line(text, 120)}", hint="a file, or 12 digits of an identity or more")


def plan_replay(opened: OpenedBundle, wish: ReplayOptions, *, tell: Tell) -> ReplayPlan:
    """RecordError of a bundle that is broken: what does not hold is not repeated."""
    if opened.verification.level == "broken":
        raise RecordError(
            f"{opened.path} is broken: {opened.verification.broken[0].reason}", hint="upright share verify"
        )
    claim = read_claim(opened.statement)
    recipe = claim.of(Recipe)
    if recipe is None or recipe.engine not in ENGINES:
        raise RecordError(f"{opened.path} is of no engine that is known here", hint=f"known: {', '.join(ENGINES)}")
    goal = Goal(context_tokens=recipe.context_tokens or None, users=max(1, recipe.users), engine=recipe.engine)
    prepared = _prepared(wish.model or _weights(opened), goal, wish, tell)
    left_out: tuple[DroppedSetting, ...] = ()
    if prepared.recipe is not None:
        whole = opened.statement.predicate.source is None
        made = replay_recipe(recipe, prepared.recipe, _wished(wish), whole=whole)
        prepared, left_out = replace(prepared, recipe=made.recipe), made.left_out
    told = tuple(differences(opened.statement, claim, prepared))
    return ReplayPlan(opened, prepared, told, left_out, loads_of(claim), _rung(opened))


def _prepared(source: str, goal: Goal, wish: ReplayOptions, tell: Tell) -> Prepared:
    """To be run, it needs weights and an engine; to be looked at, neither."""
    if wish.run:
        return prepare_model(source, goal, LocalHost(), port=wish.port, tell=tell)
    request = PlanRequest(artifacts_of(source), box_named(NamedBox(box=wish.box)), goal, measured=measurements())
    return prepare(request, weights_path, port=wish.port, wishes=RenderOptions(must_be_installed=False))


def run_replay(
    plan: ReplayPlan, path: Path | None, *, key: Path | None, budget_seconds: float, tell: Tell
) -> ReplayResult:
    """What it starts it ends, whatever happens."""
    identity = plan.opened.verification.identity
    if plan.prepared.recipe is None:
        raise LaunchError("it does not fit here", hint="upright share replay BUNDLE --plan-only says why")
    if not plan.loads:
        raise UsageError("it has no load that can be measured again", hint="a table without samples is only compared")
    directory = register(plan.prepared)
    try:
        with ended_like_ctrl_c(), without_restarts(directory):
            start(plan.prepared, directory, tell=tell)
            _measured(plan, directory, budget_seconds, tell)
    finally:
        if directory.has(Deployment):
            with signals_kept_off(), suppress(UprightError):
                stop(directory)
    path = path or Path(f"{identity[:12]}.replay.bundle.json")
    shared = share(directory, path, key=key, replays=(identity,))
    return ReplayResult(plan, compared_cells(plan.opened.benchmarks, saved_benchmarks(directory)), shared)


def _measured(plan: ReplayPlan, directory: DeploymentDir, budget_seconds: float, tell: Tell) -> None:
    """The proof gets as much of the time as each load; what one leaves over is there for those after it."""
    ends, parts = time.monotonic() + budget_seconds, len(plan.loads) + (plan.to is not None)
    each = format_duration(budget_seconds / parts)
    tell(f"{format_duration(budget_seconds)} for {parts} parts: about {each} for each")
    if plan.to is not None:
        prove_deployment(directory, ProofOptions(plan.to, budget_seconds=budget_seconds / parts), tell)
    for number, load in enumerate(plan.loads):
        known, _ = deployment_endpoint(directory, load.api)
        share = max(ends - time.monotonic(), 1.0) / (len(plan.loads) - number)
        bench([known], _sweep(load, share), directory, SweepWatch(tell=tell), test=False)


def loads_of(claim: Claim) -> tuple[ReplayLoad, ...]:
    """Loads of our own generator that somebody could mean; no more shapes than anybody measures."""
    return tuple(load for benchmark in claim.benchmarks if (load := _load(benchmark)) is not None)


def _load(benchmark: Benchmark) -> ReplayLoad | None:
    cells = [cell for cell in benchmark.cells if not cell.marks and _reasonable(cell.shape)]
    if not cells or benchmark.workload not in workloads():
        return None
    shapes = tuple(dict.fromkeys(cell.shape for cell in cells))[:_MOST_SHAPES]
    repeats = min(max(cell.repeat for cell in cells), _MOST_REPEATS)
    return ReplayLoad(benchmark.workload, cells[0].api, shapes, max(1, repeats))


def _reasonable(shape: Shape) -> bool:
    tokens = shape.prompt_tokens + shape.output_tokens + max(0, shape.turns - 1) * max(0, shape.turn_tokens)
    return (
        1 <= shape.concurrency <= _MOST_AT_ONCE
        and 1 <= shape.requests <= _MOST_REQUESTS
        and shape.output_tokens >= 1
        and shape.prompt_tokens >= 0
        and 1 <= shape.turns <= 64
        and 0 <= tokens <= _MOST_TOKENS
        and 0 <= shape.ramp_seconds <= 60
        and (shape.requests_per_second is None or 0 < shape.requests_per_second <= 1000)
    )


def _sweep(load: ReplayLoad, seconds: float) -> SweepRequest:
    row = workloads()[load.workload].model_copy(update={"search": None})
    return SweepRequest(row, load.shapes, load.repeats, 0, seconds, fresh=True)


def _wished(wish: ReplayOptions) -> dict[str, str | None]:
    parts = [flag.partition("=") for flag in wish.flags]
    return {name: text if equals else None for name, equals, text in parts}


def _rung(opened: OpenedBundle) -> str | None:
    climbed = [rung.name for rung in RUNGS if rung.name in opened.statement.predicate.ladder]
    return climbed[-1] if climbed else None


def _weights(opened: OpenedBundle) -> str:
    """A repository's name is all that a bundle may say of where weights are."""
    repository = opened.statement.predicate.model.repository or ""
    if not _REPOSITORY.fullmatch(repository) or Path(repository).exists():
        raise UsageError("the bundle does not say where its weights are", hint="--model FILE, a folder or a repository")
    return repository

"""Endpoints to measure: of a deployment, of a recipe or at an address."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from upright.base.errors import LaunchError, StoreError, UsageError
from upright.base.home import home
from upright.engines import has_slots
from upright.facts.records.benchmark import AS_IT_IS, Api
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.load import LoadTarget
from upright.serving.launch import restart, status


@dataclass(frozen=True)
class KnownEndpoint:
    """What is known of an endpoint before it is asked anything."""

    target: LoadTarget
    name: str
    """What people call it."""
    deployment: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    recipe: str | None = None
    """Digest of the recipe."""
    metrics_path: str | None = None
    pool_tokens: int | None = None
    context_tokens: int | None = None
    made_from: tuple[str, ...] = ()
    enter: Callable[[], None] | None = None
    """Makes it the one that runs, where only one can."""


def recipe_endpoints(directory: DeploymentDir, other: Recipe, api: Api = "chat") -> tuple[KnownEndpoint, KnownEndpoint]:
    """The deployment by its own recipe and by another, each started when its turn comes."""
    own = directory.read(Recipe)
    first, _ = deployment_endpoint(directory, api)
    if other.digest == own.digest:
        raise UsageError(
            f"{first.name} runs by that recipe already", hint="name the recipe that it should be tried with"
        )
    state = {"running": own.digest}

    def run_by(recipe: Recipe) -> Callable[[], None]:
        def enter() -> None:
            if state["running"] != recipe.digest:
                restart(directory, recipe, in_trial=True)
                state["running"] = recipe.digest

        return enter

    changed = ", ".join(_differences(own, other)) or "the same settings"
    a = replace(first, name=f"{first.name}{AS_IT_IS}", enter=run_by(own))
    b = replace(
        first, name=f"{first.name} with {changed}", recipe=other.digest, enter=run_by(other),
        context_tokens=other.context_tokens,
    )  # fmt: skip
    return a, b


def _differences(own: Recipe, other: Recipe) -> list[str]:
    before = {(setting.name, setting.value) for setting in (*own.environment, *own.arguments)}
    after = [(setting.name, setting.value) for setting in (*other.environment, *other.arguments)]
    added = [" ".join(filter(None, pair)) for pair in after if pair not in before]
    names = {name for name, _ in after}
    return [*added, *(f"no {name}" for name, _ in sorted(before, key=str) if name not in names)]


def deployment_endpoint(directory: DeploymentDir, api: Api = "chat") -> tuple[KnownEndpoint, DeploymentDir]:
    """LaunchError if it does not run."""
    deployment = status(directory)
    if deployment.state not in ("ready", "degraded"):
        raise LaunchError(
            f"{deployment.name} is {deployment.state}: {deployment.reason or 'it does not answer yet'}",
            hint=f"upright logs {deployment.name}" if deployment.state == "failed" else "start one: upright up MODEL",
        )
    recipe = directory.read(Recipe)
    known = KnownEndpoint(
        LoadTarget(deployment.base_url, deployment.served_name, api, key=directory.key()),
        name=deployment.name,
        deployment=deployment.name,
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        recipe=recipe.digest,
        metrics_path=recipe.metrics_path,
        pool_tokens=recipe.context_tokens * recipe.users if has_slots(recipe.engine) else None,
        context_tokens=deployment.context_tokens,
        made_from=(deployment.reference, recipe.reference),
    )
    return known, directory


def address_endpoint(
    base_url: str, model: str, key: str | None, api: Api = "chat"
) -> tuple[KnownEndpoint, DeploymentDir]:
    """An endpoint that somebody else runs; its cells are kept under HOME/benchmarks."""
    target = LoadTarget(base_url.rstrip("/").removesuffix("/v1"), model, api, key=key)
    slug = re.sub(r"[^a-z0-9.]+", "-", f"{target.host}-{target.port}-{model}".lower()).strip("-.")
    path = home() / "benchmarks" / slug
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    return KnownEndpoint(
        target, name=f"{model} at {target.host}:{target.port}", metrics_path="/metrics"
    ), DeploymentDir(path)

"""A deployment or an address -> what is known of it before it is asked anything, and where its cells are kept."""

from __future__ import annotations

import re
from dataclasses import dataclass

from upright.benchmarking.load import Target
from upright.errors import LaunchError, StoreError
from upright.home import home
from upright.launching import status
from upright.records.benchmark import Api
from upright.records.recipe import Recipe
from upright.store import DeploymentDir


@dataclass(frozen=True)
class Known:
    """What is known of an endpoint before it is asked anything."""

    target: Target
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


def of_deployment(directory: DeploymentDir, api: Api = "chat") -> tuple[Known, DeploymentDir]:
    """LaunchError if it does not run."""
    deployment = status(directory)
    if deployment.state not in ("ready", "degraded"):
        raise LaunchError(
            f"{deployment.name} is {deployment.state}: {deployment.reason or 'it does not answer yet'}",
            hint=f"upright logs {deployment.name}" if deployment.state == "failed" else "start one: upright up MODEL",
        )
    recipe = directory.read(Recipe)
    known = Known(
        Target(deployment.base_url, deployment.served_name, api, key=directory.key()),
        name=deployment.name,
        deployment=deployment.name,
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        recipe=recipe.digest,
        metrics_path=recipe.metrics_path,
        pool_tokens=recipe.context_tokens * recipe.users if "llama" in recipe.engine else None,
        context_tokens=deployment.context_tokens,
        made_from=(deployment.reference, recipe.reference),
    )
    return known, directory


def of_address(base_url: str, model: str, key: str | None, api: Api = "chat") -> tuple[Known, DeploymentDir]:
    """An endpoint that somebody else runs; its cells are kept under HOME/benchmarks."""
    target = Target(base_url.rstrip("/").removesuffix("/v1"), model, api, key=key)
    slug = re.sub(r"[^a-z0-9.]+", "-", f"{target.host}-{target.port}-{model}".lower()).strip("-.")
    path = home() / "benchmarks" / slug
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    return Known(target, name=f"{model} at {target.host}:{target.port}", metrics_path="/metrics"), DeploymentDir(path)

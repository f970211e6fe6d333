"""A deployment + another, or a recipe's file -> who is measured in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upright import store
from upright.benchmarking.known import KnownEndpoint, of_deployment, of_recipes
from upright.errors import UsageError
from upright.proving.stepping import on_trial
from upright.records.benchmark import Api
from upright.records.loading import load
from upright.records.recipe import Recipe
from upright.store import DeploymentDir


@contextmanager
def beside(
    known: KnownEndpoint, directory: DeploymentDir, against: str | None, api: Api
) -> Iterator[list[KnownEndpoint]]:
    """Who is measured: the one, or two in turns. A recipe's trial ends with the deployment as it was."""
    if against is None:
        yield [known]
    elif not against.endswith((".json", ".yaml", ".yml")):
        yield [known, of_deployment(store.find(against), api)[0]]
    elif known.deployment is None:
        raise UsageError(
            "a recipe can be tried on a deployment of ours only", hint="--against DEPLOYMENT, or no --base-url"
        )
    else:
        other = load(Path(against), Recipe)
        with on_trial(directory, other, Path(against).name, "to be measured against the recipe as it is"):
            yield list(of_recipes(directory, other, api))

"""Who is benchmarked: a deployment or an address, alone or in turns with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upright.base.bounds.files import key_in
from upright.base.errors import UsageError
from upright.base.progress import Tell
from upright.facts import store
from upright.facts.records.benchmark import Api
from upright.facts.records.loading import load
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.endpoints import KnownEndpoint, address_endpoint, deployment_endpoint, recipe_endpoints
from upright.proof.ladder.recipe_changes import running_trial_recipe, undo_interrupted


def measured_subject(
    deployment: str | None, base_url: str | None, model: str | None, key_file: Path | None, api: Api, tell: Tell
) -> tuple[KnownEndpoint, DeploymentDir]:
    """A deployment of ours, as it was before a trial that was cut off; or an endpoint that somebody else runs."""
    if base_url is None:
        if model is not None or key_file is not None:
            raise UsageError(
                "--model and --key-file go with --base-url", hint="upright bench DEPLOYMENT, or --base-url URL"
            )
        directory = store.running_or_last(deployment)
        undo_interrupted(directory, tell)
        return deployment_endpoint(directory, api)
    if deployment is not None:
        raise UsageError(f"either the deployment {deployment} or --base-url, not both", hint="leave one out")
    if model is None:
        raise UsageError(
            "--base-url needs the name of a model", hint=f"curl {base_url.rstrip('/')}/v1/models names them"
        )
    return address_endpoint(base_url, model, key_in(key_file) if key_file else None, api)


@contextmanager
def measured_subjects(
    known: KnownEndpoint, directory: DeploymentDir, against: str | None, api: Api
) -> Iterator[list[KnownEndpoint]]:
    """Who is measured: the one, or two in turns. A recipe's trial ends with the deployment as it was."""
    if against is None:
        yield [known]
    elif not against.endswith((".json", ".yaml", ".yml")):
        yield [known, deployment_endpoint(store.find(against), api)[0]]
    elif known.deployment is None:
        raise UsageError(
            "a recipe can be tried on a deployment of ours only", hint="--against DEPLOYMENT, or no --base-url"
        )
    else:
        other = load(Path(against), Recipe)
        with running_trial_recipe(directory, other, Path(against).name, "to be measured against the recipe as it is"):
            yield list(recipe_endpoints(directory, other, api))

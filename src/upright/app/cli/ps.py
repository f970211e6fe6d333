"""`upright ps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.output import Output, output_options

if TYPE_CHECKING:
    from upright.facts.records.deployment import Deployment
    from upright.facts.store import DeploymentDir, ListedDeployment


@click.command()
@output_options
def command(output: Output) -> None:
    """List deployments and their state."""
    from upright.app.pages.deployment_pages import ps_page
    from upright.facts import store

    listed = [_look(directory) for directory in store.deployments()]
    output.answer([_row(entry) for entry in listed], lambda console: ps_page(console, listed))
    last = listed[-1].deployment if listed else None
    output.next(*_next(last))


def _next(last: Deployment | None) -> tuple[str, ...]:
    from upright.facts.records.deployment import RUNNING

    if last is None or last.state not in {*RUNNING, "failed"}:
        return ("recommend",)
    if last.state == "ready":
        return ("connect", last.name)
    return ("diagnose", last.name) if last.state in ("failed", "hung", "degraded") else ("logs", last.name, "--follow")


def _look(directory: DeploymentDir) -> ListedDeployment:
    """The state now; a directory that cannot be read is listed with the reason, and the others after it."""
    from upright.base.errors import UprightError
    from upright.facts.store import ListedDeployment
    from upright.serving.launch import status

    try:
        return ListedDeployment(directory, status(directory), None)
    except UprightError as error:
        return ListedDeployment(directory, None, error.message)


def _row(item: ListedDeployment) -> dict[str, Any]:
    if item.deployment is not None:
        return item.deployment.to_dict()
    return {"name": item.directory.name, "state": "unreadable", "reason": item.problem}

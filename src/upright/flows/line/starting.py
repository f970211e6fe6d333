"""Starts a prepared deployment, waits for its first answer and reads its memory back."""

from __future__ import annotations

import re
from collections.abc import Callable

from upright.base.errors import LaunchError, UprightError
from upright.base.progress import Tell
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.flows.line.preparing import LaunchTarget, Prepared
from upright.serving.launch import base_url_for, launch, refuse_missing_runtime, refuse_taken_port
from upright.serving.launch.readback import read_back

OnChange = Callable[[Deployment], None]


def register(prepared: Prepared, on: LaunchTarget | None = None, *, healing: bool = False) -> DeploymentDir:
    """A new deployment's directory, with the records it will be made from; none for what cannot be started. A refusal
    is noted: it is what a bare `diagnose` talks about."""
    on = on or LaunchTarget()
    if prepared.recipe is not None:
        try:
            if not healing:
                refuse_taken_port(base_url_for(prepared.recipe, on.machine, on.port))
            refuse_missing_runtime(prepared.recipe, on.host())
        except UprightError as error:
            store.note_refusal(prepared.model.name, error.message, error.hint)
            raise
    directory = store.create(_slug(prepared.model.name))
    for record in (prepared.box, prepared.model, prepared.plan):
        directory.write(record)
    return directory


def start(
    prepared: Prepared,
    directory: DeploymentDir,
    *,
    tell: Tell,
    on: LaunchTarget | None = None,
    on_change: OnChange | None = None,
) -> Deployment:
    """Start the engine; it has answered a real question when this returns."""
    if prepared.recipe is None:
        raise LaunchError("a plan with objections cannot be started")
    on = on or LaunchTarget()
    deployment = launch(
        prepared.recipe,
        directory,
        machine=on.machine,
        port=on.port,
        keeping=on.keeping,
        on_change=on_change or tell_changes(tell),
    )
    measure_residuals(directory, tell=tell)
    return deployment


def measure_residuals(directory: DeploymentDir, *, tell: Tell) -> Residuals | None:
    """The engine's own figures beside the plan's, kept for the next plan; no engine is held up by it."""
    try:
        return read_back(directory)
    except (UprightError, OSError) as error:
        tell(f"not measured: {error}")
        return None


def tell_changes(tell: Tell) -> OnChange:
    """A deployment's changes, in words, each once."""
    announced: list[str] = []

    def on_change(now: Deployment) -> None:
        announcement = now.state + (f": {now.reason}" if now.reason else "")
        if announced[-1:] != [announcement]:
            announced.append(announcement)
            tell(announcement)

    return on_change


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"

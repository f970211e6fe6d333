"""Launches a recipe: an engine that is really up, in a process that outlives the terminal.

`launch` writes the records and starts the supervisor; the supervisor alone writes the state from then on. `status` is
true even after `kill -9` of everything: a state whose supervisor is gone is put right by whoever looks next.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from upright.base.errors import LaunchError, StoreError, UprightError
from upright.base.host import Host, LocalHost, SshHost, passed_environment
from upright.base.host.environment import Recipient
from upright.base.progress import utc_now
from upright.engines.advisories import refuse_advisories
from upright.engines.constraints import refuse_breaches as refuse_forbidden
from upright.facts.records.deployment import RUNNING, Change, Deployment, Keeping
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir, write_atomically
from upright.serving.launch.locks import inheritable_lock, is_supervised, supervisor_lock
from upright.serving.launch.places import place_of
from upright.serving.launch.processes import alive, boot_id, end_group, send
from upright.serving.launch.runtimes import RUNTIMES


class TakenDownError(UprightError):
    """A trial's restart of a deployment that a person has taken down meanwhile: it stays down."""


_NOT_YET_WRITTEN = "its engine has ended, and its supervisor has not written yet what came next"
Progress = Callable[[Deployment], None]


def launch(
    recipe: Recipe,
    directory: DeploymentDir,
    *,
    machine: str | None = None,
    port: int | None = None,
    keeping: Keeping | None = None,
    on_change: Progress | None = None,
) -> Deployment:
    """Start the engine and wait until it answered a real request. LaunchError if it ends before that.

    On another machine, `machine` is what ssh calls it, and `port` where it answers here; without one, the recipe's.
    """
    if recipe.nodes > 1:
        raise LaunchError(
            f"{recipe.nodes} boxes hold this model together, and one alone would wait for the others for ever",
            hint="upright render MODEL --nodes 2 --to shell writes a script for each box",
        )
    refuse_advisories(recipe)
    refuse_forbidden(recipe)
    base_url = base_url_for(recipe, machine, port)
    refuse_taken_port(base_url)
    refuse_missing_runtime(recipe, LocalHost() if machine is None else SshHost(machine))
    refuse_unset_variables(recipe, machine)
    directory.key()
    with inheritable_lock(directory) as lock:  # before anybody can read of it: a stop waits for whoever has it
        directory.write(recipe)
        _taken_down(directory).unlink(missing_ok=True)
        now = utc_now()
        directory.write(
            Deployment(
                made_from=(recipe.reference,),
                name=directory.name,
                state="planned",
                base_url=base_url,
                machine=machine,
                keeping=keeping or Keeping(),
                created_at=now,
                changed_at=now,
                history=(Change(state="planned", at=now),),
                **_of_recipe(recipe, directory),
            )
        )
        _start_supervisor(directory, lock)
    return _wait_until_ready(directory, on_change)


def restart(
    directory: DeploymentDir,
    recipe: Recipe | None = None,
    *,
    on_change: Progress | None = None,
    in_trial: bool = False,
) -> Deployment:
    """Stop the engine if it runs, and start it again, by another recipe if one is given; the old one is kept.

    A recipe that cannot be started is refused while the engine still runs. In a trial nothing is started that a person
    has taken down meanwhile: TakenDownError.
    """
    present, old = status(directory), directory.read(Recipe)
    wanted = recipe or old
    if not in_trial:
        _taken_down(directory).unlink(missing_ok=True)
    refuse_advisories(wanted)
    refuse_forbidden(wanted)
    base_url = wanted.base_url if present.machine is None else present.base_url
    refuse_missing_runtime(wanted, LocalHost() if present.machine is None else SshHost(present.machine))
    refuse_unset_variables(wanted, present.machine)
    if base_url != present.base_url:
        refuse_taken_port(base_url)
    stopped = stop(directory)
    refuse_taken_port(base_url)
    with inheritable_lock(directory) as lock:
        if _taken_down(directory).exists():
            raise TakenDownError(
                f"{directory.name} was taken down meanwhile", hint=f"upright restart {directory.name} starts it again"
            )
        replace_recipe(directory, wanted)
        again = with_fields(
            stopped,
            made_from=(wanted.reference,),
            state="planned",
            base_url=base_url,
            supervisor=None,
            process=None,
            ready_seconds=None,
            exit_code=None,
            progress=None,
            restarts=0,
            reason="restarted" if wanted == old else "restarted with another recipe",
            **_of_recipe(wanted, directory),
        )
        directory.write(again)
        _start_supervisor(directory, lock)
    return _wait_until_ready(directory, on_change)


def replace_recipe(directory: DeploymentDir, recipe: Recipe) -> None:
    """What the next start goes by; the one before is kept."""
    old = directory.read(Recipe)
    if recipe != old:
        _set_aside(directory, old)
        directory.write(recipe)


def status(directory: DeploymentDir) -> Deployment:
    """The state now, put right if nobody is left to keep it."""
    return _righted(directory, stopped=False)


def _righted(directory: DeploymentDir, *, stopped: bool) -> Deployment:
    """`stopped`: its supervisor was asked to end, and did."""
    deployment = directory.read(Deployment)
    if deployment.state not in RUNNING:
        return deployment
    if alive(deployment.supervisor):
        return (
            deployment
            if _is_current(deployment)
            else with_fields(deployment, state="degraded", reason=_NOT_YET_WRITTEN)
        )
    if deployment.machine is not None:
        return _taken_up(directory)
    with supervisor_lock(directory) as ours:
        deployment = directory.read(Deployment)
        if not ours or deployment.state not in RUNNING:
            return deployment
        if deployment.process is not None:
            end_group(deployment.process, patience_seconds=ending_seconds(deployment.runtime))
        _remove_container(deployment)
        reason = "its supervisor is gone and left no reason; its engine was ended too"
        if deployment.supervisor is not None and deployment.supervisor.boot_id not in (None, boot_id()):
            reason = "the machine was restarted, and its engine is gone"
        state, reason = ("stopped", "stopped on request") if stopped else ("failed", reason)
        ended = with_fields(deployment, state=state, reason=reason, progress=None)
        with suppress(StoreError):  # it is true all the same, and whoever looks next tries again
            directory.write(ended)
        return ended


def _is_current(deployment: Deployment) -> bool:
    """False if an engine here has ended, or another was started, and its supervisor has not written it: it comes
    a moment later, or when the disk takes it."""
    if deployment.machine is not None or deployment.process is None or deployment.state in ("pulling", "starting"):
        return True
    return alive(deployment.process)


def take_down(directory: DeploymentDir) -> Deployment:
    """A person's stop: a trial that is under way, or is being taken back, does not start it again."""
    with suppress(OSError):
        _taken_down(directory).touch()
    return stop(directory)


def _taken_down(directory: DeploymentDir) -> Path:
    return directory.path / "down"


def stop(directory: DeploymentDir, *, patience_seconds: float = 120) -> Deployment:
    """Ask the supervisor to end the engine, and wait for it: even after its last word it has the lock until it ends.

    Whoever has the lock while nothing runs is about to start it, or is ending: that is waited for.
    """
    killed = False
    deadline = time.monotonic() + patience_seconds
    while (deployment := status(directory)).state not in RUNNING and is_supervised(directory):
        if time.monotonic() > deadline:  # it holds the lock, and does not begin
            break
        time.sleep(0.05)
    runs = deployment.state in RUNNING and deployment.supervisor is not None
    if deployment.supervisor is not None:
        if runs:
            send(deployment.supervisor, signal.SIGTERM)
        while alive(deployment.supervisor):
            if time.monotonic() > deadline:
                send(deployment.supervisor, signal.SIGKILL)  # `status` ends what it leaves
                killed = True
            time.sleep(0.05)
    if deployment.state == "failed" and deployment.machine is not None:
        place_of(deployment, directory).end(deployment.process)  # it may have been out of reach when it failed
    return _righted(directory, stopped=not killed) if runs else deployment


def ending_seconds(runtime: str) -> float:
    """How long an engine may take to end. A container's client takes its network down too; killed, it leaves it."""
    return 10 if runtime == "process" else 40


def is_starting(directory: DeploymentDir, *, patience_seconds: float = 5) -> bool:
    """Whether an engine comes up though nobody waits for it any more."""
    deadline = time.monotonic() + patience_seconds
    while directory.has(Deployment):
        state = directory.read(Deployment).state
        if state != "planned" or time.monotonic() > deadline:
            return state in RUNNING
        time.sleep(0.05)
    return False


def with_fields(deployment: Deployment, **fields: Any) -> Deployment:
    """The same deployment with other fields; a new state is a new line of its history."""
    return deployment.changed(utc_now(), **fields)


def base_url_for(recipe: Recipe, machine: str | None = None, port: int | None = None) -> str:
    """Where it will answer, from here: where it binds, or our end of a tunnel."""
    return recipe.base_url if machine is None else f"http://127.0.0.1:{port or recipe.port}"


def refuse_taken_port(base_url: str) -> None:
    host, _, port = base_url.rpartition("/")[2].rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            raise LaunchError(
                f"port {port} on {host} cannot be had: {error.strerror}",
                hint=f"take another with --port, or see who has it: ss -ltnp 'sport = :{port}'",
            ) from None


def refuse_missing_runtime(recipe: Recipe, host: Host) -> None:
    """A machine without the runtime, or a recipe without an image for it."""
    runtime = RUNTIMES[recipe.runtime]
    runtime.present(recipe)  # complains of a recipe that names no image
    program = runtime.program
    if program is not None and host.which(program) is None:
        raise LaunchError(
            f"{program} is not on {host.name}", hint=f"install {program}, or start the engine itself: --runtime process"
        )


def refuse_unset_variables(recipe: Recipe, machine: str | None) -> None:
    """A variable that the recipe hands on, and that is not there. What another machine has is seen there only."""
    missing = [name for name in recipe.passed if name not in os.environ]
    if missing and machine is None:
        name = missing[0]
        raise LaunchError(f"{name} is to be handed on to the engine, and is not set here", hint=f"export {name}=…")


def container_name(directory: DeploymentDir) -> str:
    """Known before the container exists, and no other deployment's, of whatever home."""
    own = hashlib.sha256(str(directory.path).encode()).hexdigest()[:8]
    return f"upright-{directory.name}-{own}"


def _of_recipe(recipe: Recipe, directory: DeploymentDir) -> dict[str, Any]:
    """What a deployment says of itself because its recipe does."""
    return {
        "engine": recipe.engine,
        "engine_version": recipe.engine_version,
        "served_name": recipe.served_name,
        "context_tokens": recipe.context_tokens,
        "runtime": recipe.runtime,
        "container": None if recipe.runtime == "process" else container_name(directory),
    }


def _remove_container(deployment: Deployment) -> None:
    removal = RUNTIMES[deployment.runtime].remove(deployment.container) if deployment.container else None
    if removal is not None:
        LocalHost().run(removal, timeout_seconds=60)


def _taken_up(directory: DeploymentDir) -> Deployment:
    """An engine on another machine does not die with its supervisor here: a new one takes it up."""
    if not is_supervised(directory):
        try:
            with inheritable_lock(directory) as lock:
                _start_supervisor(directory, lock)
        except LaunchError:
            if not is_supervised(directory):  # else somebody else was quicker, and all is well
                raise
    return directory.read(Deployment)


def _set_aside(directory: DeploymentDir, recipe: Recipe) -> Path:
    """recipe-1.json is the first that this deployment ran with."""
    number = 1
    while (kept := directory.path / f"recipe-{number}.json").exists():
        number += 1
    write_atomically(kept, recipe.to_json().encode())
    return kept


def _start_supervisor(directory: DeploymentDir, lock: int) -> None:
    """Returns once the supervisor hears a stop; it is nobody's child and outlives the terminal. It has the lock from
    its first moment on: whoever interrupts or kills this ends the waiting, not the supervisor; the next sees it.
    """
    with (directory.path / "supervisor.log").open("ab") as log:
        starting = subprocess.Popen(
            [sys.executable, "-m", "upright.serving.launch.supervisor", str(directory.path), str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_supervisors_environment(directory),
            start_new_session=True,
            pass_fds=(lock,),
            cwd="/",
        )
    if (code := starting.wait()) != 0:
        directory.write(with_fields(directory.read(Deployment), state="failed", reason="its supervisor did not start"))
        raise LaunchError(
            f"the supervisor of {directory.name} did not start (code {code})",
            hint=f"cat {directory.path / 'supervisor.log'}",
        )


def _supervisors_environment(directory: DeploymentDir) -> dict[str, str]:
    """What it needs itself and what it hands on: an engine can read the environment of a process of the same person."""
    recipe = directory.read(Recipe)
    kinds: tuple[Recipient, ...] = ("supervisor", "engine" if recipe.runtime == "process" else "client")
    return {
        name: setting
        for to in kinds
        for name, setting in passed_environment(os.environ, to, named=recipe.passed).items()
    }


def _wait_until_ready(directory: DeploymentDir, on_change: Progress | None) -> Deployment:
    seen: Deployment | None = None
    while True:
        supervised = is_supervised(directory)
        deployment = directory.read(Deployment)
        if on_change is not None and deployment != seen:
            on_change(deployment)
        seen = deployment
        if deployment.state == "ready":
            return deployment
        if not supervised:
            reason = status(directory).reason or "the supervisor ended"
            raise LaunchError(f"{directory.name} did not come up: {reason}", hint=f"upright diagnose {directory.name}")
        time.sleep(0.05)

"""Recipe -> an engine that is really up, in a process that outlives the terminal.

`launch` writes the records and starts the supervisor; the supervisor alone writes the state from then on. `status` is
true even after `kill -9` of everything: a state whose supervisor is gone is put right by whoever looks next.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from upright.errors import LaunchError
from upright.launching.processes import alive, end_group, send
from upright.records.deployment import RUNNING, Change, Deployment
from upright.records.recipe import Recipe
from upright.store import DeploymentDir, write_atomically

Progress = Callable[[Deployment], None]


def launch(recipe: Recipe, directory: DeploymentDir, *, on_change: Progress | None = None) -> Deployment:
    """Start the engine and wait until it answered a real request. LaunchError if it ends before that."""
    refuse_taken_port(recipe)
    directory.key()
    directory.write(recipe)
    now = utc_now()
    directory.write(
        Deployment(
            made_from=(recipe.reference,),
            name=directory.name,
            state="planned",
            engine=recipe.engine,
            engine_version=recipe.engine_version,
            served_name=recipe.served_name,
            base_url=recipe.base_url,
            context_tokens=recipe.context_tokens,
            created_at=now,
            changed_at=now,
            history=(Change(state="planned", at=now),),
        )
    )
    _start_supervisor(directory)
    return _wait_until_ready(directory, on_change)


def restart(directory: DeploymentDir, recipe: Recipe | None = None, *, on_change: Progress | None = None) -> Deployment:
    """Stop the engine if it runs, and start it again, by another recipe if one is given; the old one is kept."""
    stopped = stop(directory)
    old = directory.read(Recipe)
    wanted = recipe or old
    refuse_taken_port(wanted)
    with supervising(directory) as ours:
        if not ours:
            raise LaunchError(f"{directory.name} is being started by somebody else", hint="upright ps")
        if wanted != old:
            _set_aside(directory, old)
            directory.write(wanted)
        again = changed(
            stopped,
            made_from=(wanted.reference,),
            state="planned",
            engine=wanted.engine,
            engine_version=wanted.engine_version,
            served_name=wanted.served_name,
            base_url=wanted.base_url,
            context_tokens=wanted.context_tokens,
            supervisor=None,
            process=None,
            ready_seconds=None,
            exit_code=None,
            reason="restarted" if wanted == old else "restarted with another recipe",
        )
        directory.write(again)
    _start_supervisor(directory)
    return _wait_until_ready(directory, on_change)


def status(directory: DeploymentDir) -> Deployment:
    """The state now, put right if nobody is left to keep it."""
    deployment = directory.read(Deployment)
    if deployment.state not in RUNNING or alive(deployment.supervisor):
        return deployment
    with supervising(directory) as ours:
        deployment = directory.read(Deployment)
        if not ours or deployment.state not in RUNNING:
            return deployment
        if deployment.process is not None:
            end_group(deployment.process)
        failed = changed(deployment, state="failed", reason="the supervisor was killed; its engine was ended too")
        directory.write(failed)
        return failed


def stop(directory: DeploymentDir, *, patience_seconds: float = 30) -> Deployment:
    """Ask the supervisor to end the engine, and wait for it."""
    deployment = status(directory)
    if deployment.state not in RUNNING or deployment.supervisor is None:
        return deployment
    send(deployment.supervisor, signal.SIGTERM)
    deadline = time.monotonic() + patience_seconds
    while alive(deployment.supervisor):
        if time.monotonic() > deadline:
            send(deployment.supervisor, signal.SIGKILL)  # `status` ends what it leaves
        time.sleep(0.05)
    return status(directory)


@contextmanager
def supervising(directory: DeploymentDir) -> Iterator[bool]:
    """Holds the deployment's lock; yields False if another process has it. Its holder alone writes the state."""
    descriptor = os.open(directory.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


def changed(deployment: Deployment, **fields: Any) -> Deployment:
    """The same deployment with other fields; a new state is a new line of its history."""
    return deployment.changed(utc_now(), **fields)


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def refuse_taken_port(recipe: Recipe) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((recipe.host, recipe.port))
        except OSError as error:
            raise LaunchError(
                f"port {recipe.port} on {recipe.host} cannot be had: {error.strerror}",
                hint=f"take another with --port, or see who has it: ss -ltnp 'sport = :{recipe.port}'",
            ) from None


def _set_aside(directory: DeploymentDir, recipe: Recipe) -> Path:
    """recipe-1.json is the first that this deployment ran with."""
    number = 1
    while (kept := directory.path / f"recipe-{number}.json").exists():
        number += 1
    write_atomically(kept, recipe.to_json().encode())
    return kept


def _start_supervisor(directory: DeploymentDir) -> None:
    """Returns once the supervisor holds the deployment's lock; it is nobody's child and outlives the terminal."""
    with (directory.path / "supervisor.log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-m", "upright.launching.supervisor", str(directory.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            check=False,
        )
    if done.returncode != 0:
        raise LaunchError(
            f"the supervisor of {directory.name} did not start (code {done.returncode})",
            hint=f"cat {directory.path / 'supervisor.log'}",
        )


def _wait_until_ready(directory: DeploymentDir, on_change: Progress | None) -> Deployment:
    seen = None
    while True:
        supervised = _is_supervised(directory)
        deployment = directory.read(Deployment)
        if on_change is not None and deployment.state != seen:
            on_change(deployment)
        seen = deployment.state
        if deployment.state == "ready":
            return deployment
        if not supervised:
            reason = status(directory).reason or "the supervisor ended"
            raise LaunchError(f"{directory.name} did not come up: {reason}", hint=f"upright diagnose {directory.name}")
        time.sleep(0.05)


def _is_supervised(directory: DeploymentDir) -> bool:
    with supervising(directory) as ours:
        return not ours

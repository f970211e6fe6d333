"""Restarts a fleet's router when its supervisor is gone.

An engine's supervisor is one process, and nobody restarts it. In front of a whole fleet that is too few: where systemd
keeps a person's services one of these runs under it; elsewhere there are two, and each starts the other again. They
look at the router, never at the boxes, and end when `fleet down` takes the fleet off watch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from upright.base.bounds.files import open_lock, take_lock
from upright.base.errors import UprightError
from upright.facts.store import write_atomically
from upright.flows.fleet.boxes import started_deployment
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.router_api import look_at_cut_answers
from upright.serving.launch import restart, status

_LOOK_SECONDS = 1.0
_COUNT_SECONDS = 10.0
"""How often the router is asked for what its end would forget."""
_PAUSES = (0, 2, 5, 15, 30, 60)
_UNIT = """[Unit]
Description=Router of the fleet {name} comes back
After=default.target

[Service]
ExecStart={python} -m upright.flows.fleet.sentinel {name} alone
Environment={home}
Restart=always
RestartSec=1
KillMode=process

[Install]
WantedBy=default.target
"""


def start_watchers(directory: FleetDir) -> None:
    """From now on its router is watched over."""
    write_atomically(_marker(directory), b"")
    if _systemd() and _serviced(directory):
        return
    for number in (0, 1):
        if not _held(directory, number):
            spawn(directory, number)


def stop_watchers(directory: FleetDir, *, patience_seconds: float = 10) -> None:
    """Nobody brings its router back any more; returns when the watchers are gone."""
    _marker(directory).unlink(missing_ok=True)
    directory.past_file.unlink(missing_ok=True)
    unit = _unit_file(directory)
    if unit.exists() and _systemd():
        _systemctl("disable", "--now", unit.name)
        unit.unlink(missing_ok=True)
    deadline = time.monotonic() + patience_seconds
    while any(_held(directory, number) for number in (0, 1)) and time.monotonic() < deadline:
        time.sleep(0.1)


def spawn(directory: FleetDir, number: int) -> None:
    """A process of its own that outlives this one."""
    with (directory.path / "sentinel.log").open("ab") as log:
        subprocess.run(  # it leaves at once, and its child stays: nobody's child, and no zombie of ours
            [sys.executable, "-m", "upright.flows.fleet.sentinel", directory.name, str(number)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/", check=False,
        )  # fmt: skip


def watch(directory: FleetDir, number: int, *, alone: bool) -> None:
    """Until the fleet is off watch."""
    falls, not_before, counted = 0, 0.0, time.monotonic()
    while _marker(directory).exists():
        if not alone and not _held(directory, 1 - number):
            spawn(directory, 1 - number)
            time.sleep(_LOOK_SECONDS)  # it has its lock by then, or is started again
        if time.monotonic() >= not_before:
            outcome = _brought_back(directory)
            falls = 0 if outcome is None else falls + (not outcome)
            not_before = time.monotonic() + (0 if outcome is not False else _PAUSES[min(falls, len(_PAUSES) - 1)])
        if time.monotonic() - counted >= _COUNT_SECONDS:
            counted = time.monotonic()
            with suppress(UprightError, OSError):
                look_at_cut_answers(directory.fleet(), directory)
        time.sleep(_LOOK_SECONDS)


def _brought_back(directory: FleetDir) -> bool | None:
    """Whether a router that was down is up again; None if it was not down, or somebody else is at work on it."""
    try:
        router = started_deployment(directory.state().router)
        if router is None or status(router).state != "failed":
            return None
        with directory.watcher_at_work() as ours:
            if not ours or not _marker(directory).exists() or status(router).state != "failed":
                return None
            print(f"the router is down: {status(router).reason}", flush=True)
            restart(router)
            look_at_cut_answers(directory.fleet(), directory, brought_back=1)
            print("the router is back", flush=True)
    except (UprightError, OSError) as error:
        print(f"the router could not be brought back: {error}", flush=True)
        return False
    return True


def _marker(directory: FleetDir) -> Path:
    return directory.path / "watched"


def _held(directory: FleetDir, number: int) -> bool:
    """Whether that watcher is there: the kernel frees its lock when it dies, however it does."""
    with _lock(directory, number) as ours:
        return not ours


@contextmanager
def _lock(directory: FleetDir, number: int) -> Iterator[bool]:
    descriptor = open_lock(directory.path / f"sentinel-{number}")
    try:
        yield take_lock(descriptor)
    finally:
        os.close(descriptor)


def _systemd() -> bool:
    """Whether systemd keeps services of this person here."""
    if shutil.which("systemctl") is None or "XDG_RUNTIME_DIR" not in os.environ:
        return False
    return _systemctl("show-environment")


def _serviced(directory: FleetDir) -> bool:
    """Under systemd; it starts again with the person's session, or the machine where lingering is on."""
    file = _unit_file(directory)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, unit(directory.name, directory.path.parent.parent).encode())
    return _systemctl("daemon-reload") and _systemctl("enable", "--now", file.name)


def unit(name: str, home: Path) -> str:
    quoted = f'"UPRIGHT_HOME={home}"'.replace("%", "%%")
    return _UNIT.format(name=name, python=sys.executable.replace("%", "%%"), home=quoted)


def _unit_file(directory: FleetDir) -> Path:
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return settings / "systemd/user" / f"upright-{directory.name}-router.service"


def _systemctl(*arguments: str) -> bool:
    called = subprocess.run(["systemctl", "--user", *arguments], capture_output=True, timeout=30, check=False)
    return called.returncode == 0


def main() -> None:
    directory, alone = FleetDir(sys.argv[1]), sys.argv[2] == "alone"
    number = 0 if alone else int(sys.argv[2])
    if not alone and os.fork():
        os._exit(0)
    with _lock(directory, number) as ours:
        if ours:
            watch(directory, number, alone=alone)


if __name__ == "__main__":
    main()

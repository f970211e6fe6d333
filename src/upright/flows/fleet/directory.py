"""A fleet's directory: its state, its journal, its keys and its lock.

HOME/fleets/NAME/  fleet.json fleet-state.json   records, each replaced atomically
                   file   where the fleet.yaml is that they came from
                   client.key worker.key admin.key (0600)   lock bringing-back
                   router/   what smg is started from, where it runs on this machine
                   watched sentinel-0 sentinel-1   who brings the router back (fleet/sentinel.py)
                   router-past.json   what a restart of the router would forget
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.files import MOST_KEY_BYTES, file_text, key_in, open_lock, take_lock
from upright.base.errors import LaunchError, UsageError
from upright.base.home import home
from upright.facts.records.fleet import GENERATED, Fleet, FleetState
from upright.facts.store import DeploymentDir, write_atomically

_WATCHER_SECONDS = 120
"""Longer than a router's start takes."""
_GLANCE_SECONDS = 0.5
"""Whoever only looks whether a lock is free has it for a moment."""


@dataclass(frozen=True)
class FleetKeys:
    """Three keys that are never the same: nobody who has one learns another from it."""

    client: str
    """What clients show to the router."""
    worker: str
    """What the router shows to the engines."""
    admin: str
    """What this program shows to the router to ask about boxes."""


class FleetDir:
    """One fleet on disk."""

    def __init__(self, name: str) -> None:
        self.path = home() / "fleets" / name
        self._records = DeploymentDir(self.path)
        self.writing = threading.RLock()
        """Held by whichever thread of the command at work reads, changes and writes."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def known(self) -> bool:
        return self._records.has(FleetState)

    def create(self, fleet: Fleet, file: Path | None = None) -> None:
        """What runs from now on, and the file that said so: written by a command that begins or has finished it."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._records.write(fleet)
        if file is not None:
            write_atomically(self._file, f"{file.resolve()}\n".encode())
        if not self.known:
            self.write(FleetState(name=fleet.name))

    @property
    def file(self) -> Path | None:
        """The fleet.yaml that it was last started or rolled from; None if that is not known, or it is gone."""
        path = Path(file_text(self._file, MOST_KEY_BYTES, own=True).rstrip("\n")) if self._file.exists() else None
        return path if path is not None and path.exists() else None

    def fleet(self) -> Fleet:
        return self._records.read(Fleet)

    def state(self) -> FleetState:
        return self._records.read(FleetState) if self.known else FleetState(name=self.name)

    def write(self, state: FleetState) -> None:
        self._records.write(state)

    def change(self, change: Callable[[FleetState], FleetState]) -> FleetState:
        """The state as it is now, changed and written."""
        with self.writing:
            state = change(self.state())
            self.write(state)
            return state

    def applied(self, change: Callable[[Fleet], Fleet]) -> None:
        """fleet.json says what runs: each part is written when it was applied, never when it was wished."""
        with self.writing:
            self._records.write(change(self.fleet()))

    def keys(self, reference: str = GENERATED) -> FleetKeys:
        """Made on first use; the clients' may be one that the person names."""
        if reference != GENERATED:
            self._write_key("client", _referenced(reference))
        for name in ("client", "worker", "admin"):
            if not self._key_file(name).exists():
                self._write_key(name, f"sk-upright-{secrets.token_urlsafe(24)}")
        client, worker, admin = (_kept_key(self._key_file(name)) for name in ("client", "worker", "admin"))
        if len({client, worker, admin}) < 3:
            raise UsageError(f"two keys of {self.name} are the same", hint="give clients a key of their own")
        return FleetKeys(client, worker, admin)

    def wanted_client_key(self, reference: str) -> str | None:
        """The key that fleet.yaml names; None for one that is yet to be generated."""
        if reference != GENERATED:
            return _referenced(reference)
        return _kept_key(self.client_key_file) if self.client_key_file.exists() else None

    def set_client_key(self, key: str) -> None:
        self._write_key("client", key)

    @property
    def client_key_file(self) -> Path:
        return self._key_file("client")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Only one command changes a fleet at a time; it waits for a watcher that is bringing the router back."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        last = time.monotonic() + _WATCHER_SECONDS
        until = time.monotonic() + _GLANCE_SECONDS
        with self._locks() as try_for:
            while not try_for("lock"):
                if not self._free("bringing-back"):
                    until = min(time.monotonic() + _GLANCE_SECONDS, last)
                if time.monotonic() > until:
                    raise LaunchError(
                        f"another command is at work on {self.name}", hint=f"upright fleet status {self.name}"
                    )
                time.sleep(0.05)
            yield

    @contextmanager
    def watcher_at_work(self) -> Iterator[bool]:
        """Whether a watcher may change the fleet now: not while anybody else does."""
        with self._locks() as try_for:
            yield try_for("bringing-back") and try_for("lock")

    def somebody_at_work(self) -> bool:
        """A watcher is nobody."""
        return self.path.exists() and not self._free("lock") and self._free("bringing-back")

    def _free(self, name: str) -> bool:
        with self._locks() as try_for:
            return try_for(name)

    @contextmanager
    def _locks(self) -> Iterator[Callable[[str], bool]]:
        """Hands out what takes one by its file's name; the kernel frees them all, however this process ends."""
        with ExitStack() as taken:

            def try_for(name: str) -> bool:
                descriptor = open_lock(self.path / name)
                if not take_lock(descriptor):
                    os.close(descriptor)
                    return False
                taken.callback(os.close, descriptor)
                return True

            yield try_for

    @property
    def past_file(self) -> Path:
        return self.path / "router-past.json"

    @property
    def _file(self) -> Path:
        return self.path / "file"

    def _key_file(self, name: str) -> Path:
        return self.path / f"{name}.key"

    def _write_key(self, name: str, key: str) -> None:
        write_atomically(self._key_file(name), f"{key}\n".encode(), mode=0o600)


def _kept_key(path: Path) -> str:
    return key_in(path, own=True)


def known_fleets() -> list[FleetDir]:
    directories = [FleetDir(path.parent.name) for path in (home() / "fleets").glob(f"*/{FleetState.kind}.json")]
    return sorted(directories, key=lambda directory: directory.name)


def _referenced(reference: str) -> str:
    kind, _, name = reference.partition(":")
    if kind == "env":
        key = os.environ.get(name, "").strip()
        if not key:
            raise UsageError(
                f"client_key: the variable {name} is empty", hint=f"export {name}, or client_key: generated"
            )
    else:
        try:
            key = file_text(Path(name).expanduser(), MOST_KEY_BYTES, errors="replace").strip()
        except OSError as error:
            raise UsageError(f"client_key: {name} cannot be read: {error.strerror}") from None
    if not (8 <= len(key) <= 240 and key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"client_key: what {name} holds is no key", hint="8 to 240 letters and digits, on one line")
    return key

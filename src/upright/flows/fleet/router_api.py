"""The router's API and files: its view of the boxes, and the worker list that it reads.

A box leaves the list to be drained: smg sends it nothing new within a second, and what runs on it runs to its end.
"""

from __future__ import annotations

import base64
import json
import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_text
from upright.base.errors import EndpointError, HostError, LaunchError
from upright.base.host import LocalHost, SshHost
from upright.facts.records.fleet import Fleet
from upright.facts.store import write_atomically
from upright.flows.fleet.directory import FleetDir, FleetKeys
from upright.serving.endpoint.client import Endpoint

_MOST_PAST_BYTES = 4096
PAYLOAD = Path(__file__).parent / "payload" / "__main__.py"
_PYTHON = """smg=$(command -v "$1") || exit 3
smg=$(readlink -f "$smg"); folder=$(dirname "$smg")
for python in "$folder/python3" "$folder/python" "$(sed -n '1s/^#! *//p' "$smg")"; do
  [ -x "$python" ] && "$python" -c 'import smg, importlib.metadata as m; print(m.version("smg"))' 2>/dev/null &&
    echo "$python" && exit
done
exit 4
"""


@dataclass(frozen=True)
class Worker:
    """A box as the router sees it."""

    url: str
    status: str
    """ready, draining, not_ready, pending, failed, as smg says it."""
    healthy: bool
    in_flight: int


class RouterFiles:
    """The folder that smg is started from, on the router's machine."""

    def __init__(self, fleet: Fleet, directory: FleetDir) -> None:
        self._machine = fleet.router.machine
        self._directory = directory
        self._host = SshHost(self._machine) if self._machine else None

    @property
    def folder(self) -> str:
        if self._host is None:
            return str(self._directory.path / "router")
        reply_lines = self._host.feed('printf "%s\\n" "$HOME"').out.splitlines()
        if not reply_lines:
            raise HostError(f"{self._machine} did not say where home is")
        return f"{reply_lines[-1]}/.local/state/upright/fleets/{self._directory.name}"

    def write(self, keys: FleetKeys) -> None:
        """All but the list, which is written when the boxes are there."""
        files = {f"{name}.key": f"{key}\n".encode() for name, key in vars(keys).items()}
        self._put({"__main__.py": PAYLOAD.read_bytes(), **files})

    def list_boxes(self, workers: dict[str, str]) -> None:
        """Name -> URL of each box that may be sent requests."""
        self._put({"workers.json": listing(workers).encode()})

    def python(self, program: str) -> tuple[str, str]:
        """smg's interpreter on that machine, and smg's version."""
        host = self._host or LocalHost()
        reply = host.run(["sh", "-c", _PYTHON, "smg-python", program])
        lines = reply.out.split()
        if not reply.ok or len(lines) != 2:
            raise LaunchError(
                f"smg is not on {self._machine or 'this machine'}: {program}",
                hint="pipx install smg==1.13.0, or say where it is: router.program, or UPRIGHT_SMG",
            )
        return lines[1], lines[0]

    def remove(self) -> None:
        """Keys do not stay behind on another machine."""
        if self._host is not None:
            self._host.feed(f"rm -f {shlex.quote(self.folder)}/*.key\n")

    def _put(self, files: dict[str, bytes]) -> None:
        folder = self.folder
        if self._host is None:
            Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            for name, content in files.items():
                write_atomically(Path(folder) / name, content, mode=0o600)
            return
        lines = ["set -e", "umask 077", f"mkdir -p {shlex.quote(folder)}", f"cd {shlex.quote(folder)}"]
        for name, content in files.items():
            # A here-document is no process's word: the key is in no listing.
            lines += [f"base64 -d >{name}.new <<'END-OF-FILE'", base64.b64encode(content).decode(), "END-OF-FILE"]
            lines += [f"mv {name}.new {name}"]
        reply = self._host.feed("\n".join(lines) + "\n")
        if not reply.ok:
            raise HostError(f"the router's files could not be written on {self._machine}: {reply.err.strip()[-200:]}")


def listing(urls: dict[str, str]) -> str:
    """The list as smg reads it."""
    entries = [{"id": name, "url": url} for name, url in urls.items()]
    return json.dumps({"version": 1, "workers": entries}, indent=1) + "\n"


def workers(base_url: str, keys: FleetKeys) -> dict[str, Worker]:
    """By URL. EndpointError if the router does not answer."""
    with Endpoint(base_url, "", key=keys.admin, timeout_seconds=10) as endpoint:
        listed = endpoint.json("/workers").get("workers")
    return {worker.url: worker for worker in map(_worker, listed if isinstance(listed, list) else [])}


def cut_answers(fleet: Fleet) -> int | None:
    """Answers that a failing box cut since the router started. Its metrics are on its own loopback: None from afar.

    Guard: smg 1.13 counts a stream that broke as an HTTP 200, and as a `backend_error` of the router alone.
    """
    if fleet.router.machine is not None:
        return None
    from prometheus_client.parser import text_string_to_metric_families

    try:
        with Endpoint(f"http://127.0.0.1:{fleet.router.metrics_port}", "", timeout_seconds=5) as endpoint:
            families = list(text_string_to_metric_families(endpoint.text("/metrics")))
    except (EndpointError, ValueError):
        return None
    samples = (sample for family in families for sample in family.samples)
    return round(
        sum(
            sample.value
            for sample in samples
            if sample.name == "smg_router_request_errors_total" and sample.labels.get("error_type") == "backend_error"
        )
    )


@dataclass(frozen=True)
class RouterPast:
    """What a router's restarts would forget, kept from look to look since `up`."""

    brought_back: int = 0
    cut_before: int = 0
    """Answers that were cut before the router that runs was started, as far as somebody looked."""
    cut_last: int | None = None
    """The running one's own count at the last look; None if it never said."""

    @property
    def cut_answers(self) -> int | None:
        return None if self.cut_last is None else self.cut_before + self.cut_last

    def after(self, count: int | None) -> RouterPast:
        """A count that has fallen is another process's."""
        if count is None or self.cut_last is None or count >= self.cut_last:
            return self if count is None else replace(self, cut_last=count)
        return replace(self, cut_before=self.cut_before + self.cut_last, cut_last=count)


def router_past(directory: FleetDir) -> RouterPast:
    """None of it, where nothing was kept or what was kept cannot be read."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        kept = parse_json(file_text(directory.past_file, _MOST_PAST_BYTES, own=True))
        return RouterPast(**{name: int(count) for name, count in kept.items()})
    return RouterPast()


def look_at_cut_answers(fleet: Fleet, directory: FleetDir, *, brought_back: int = 0) -> RouterPast:
    """As it is now, and kept."""
    before = router_past(directory)
    now = replace(before.after(cut_answers(fleet)), brought_back=before.brought_back + brought_back)
    if now != before:
        kept = {name: count for name, count in vars(now).items() if count is not None}
        write_atomically(directory.past_file, json.dumps(kept).encode())
    return now


def wait_until(
    base_url: str, keys: FleetKeys, holds: Callable[[dict[str, Worker]], bool], *, seconds: float, what: str
) -> None:
    """LaunchError if the router never says so."""
    deadline, last_status = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            listed_workers = workers(base_url, keys)
            if holds(listed_workers):
                return
            last_status = _words(listed_workers.values())
        except EndpointError as error:
            last_status = error.message
        time.sleep(0.3)
    raise LaunchError(f"the router did not say within {seconds:g} s that {what}: {last_status}")


def _worker(item: dict[str, Any]) -> Worker:
    return Worker(
        str(item.get("url")), str(item.get("status")), item.get("is_healthy") is True, int(item.get("load") or 0)
    )


def _words(found: Iterable[Worker]) -> str:
    return ", ".join(f"{worker.url} is {worker.status}" for worker in found) or "it lists no box"

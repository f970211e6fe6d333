"""A folder that `upright tools monitor` wrote -> a real Prometheus that runs on it, asked through its HTTP API."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from tests.ports import free_port
from upright.serving.monitor.files import DASHBOARD


@dataclass(frozen=True)
class Prometheus:
    url: str
    folder: Path
    process: subprocess.Popen[bytes]
    http: httpx2.Client

    def ask(self, path: str, **parameters: str) -> Any:
        answer = self.http.get(f"{self.url}/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def values(self, expression: str) -> list[float]:
        """The numbers that it has for this now; NaN is no data."""
        found = (float(each["value"][1]) for each in self.ask("query", query=expression)["result"])
        return [value for value in found if value == value]

    def firing(self) -> dict[str, dict[str, Any]]:
        alerts = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"]: each for each in alerts if each["state"] == "firing"}

    def wait(self, fact: Callable[[], Any], what: str, seconds: float = 90) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := fact()):
            assert self.process.poll() is None, (self.folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline, f"{what} did not come: {self.ask('targets')['activeTargets']}"
            time.sleep(0.5)
        return found


@contextmanager
def watching(folder: Path) -> Iterator[Prometheus]:
    """Its data are in memory: it answers nothing while a chunk waits for a slow disk, which is not what is tested."""
    port = free_port()
    with (
        TemporaryDirectory(dir="/dev/shm") as data,
        (folder / "prometheus.log").open("wb") as log,
        httpx2.Client(trust_env=False, timeout=60) as http,
    ):
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={data}"]
        words.append(f"--web.listen-address=127.0.0.1:{port}")
        process = subprocess.Popen(["prometheus", *words], stdout=log, stderr=log)
        server = Prometheus(f"http://127.0.0.1:{port}", folder, process, http)
        try:
            server.wait(lambda: _ready(server), "Prometheus")
            yield server
        finally:
            process.terminate()
            process.wait(60)


def _ready(server: Prometheus) -> bool:
    try:
        return server.http.get(f"{server.url}/-/ready").status_code == 200
    except httpx2.HTTPError:
        return False


def panels(folder: Path) -> dict[str, str]:
    """Title and query -> the query as Grafana sends it when all deployments are chosen."""
    dashboard = json.loads((folder / DASHBOARD).read_text())
    drawn = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    return {
        f"{panel['id']} {panel['title']}: {target['expr']}": target["expr"].replace("$deployment", ".+")
        for panel in drawn
        for target in panel["targets"]
    }


def empty(server: Prometheus, folder: Path) -> list[str]:
    """Panels that would show nothing."""
    return [title for title, expression in panels(folder).items() if not server.values(expression)]

"""A real Prometheus on what `upright monitor` writes, scraping a real engine: data for every panel, and an alert."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import httpx2
import pytest

from tests.conftest import Upright
from tests.prometheus import empty, panels, watching

pytestmark = pytest.mark.engine


def test_every_panel_has_data_and_a_killed_engine_alerts(
    upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path
) -> None:
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    done = upright("up", tiny_model, "--context", "2k", "--port", "8461", "--json", PATH=path)
    assert done.returncode == 0, done.stderr
    deployment = json.loads(done.stdout)
    try:
        written = upright("monitor", "--every", "1s", "--patience", "2s", "-o", "watch")
        assert written.returncode == 0, written.stderr
        assert "promtool accepts the configuration and the rules" in written.stderr
        folder = tmp_path / "watch"
        key = (tmp_path / "home/deployments" / deployment["name"] / "key").read_text().strip()
        for file in folder.rglob("*"):
            assert not file.is_file() or key not in file.read_text(), f"{file} holds the key"
        with watching(folder, tmp_path / "data") as prometheus, _asked(deployment, key):
            assert len(panels(folder)) >= 10
            prometheus.wait(lambda: not empty(prometheus, folder), "data for every panel")
            labels = prometheus.ask("query", query="upright:generation_tokens_per_second")["result"][0]["metric"]
            assert (labels["deployment"], labels["software"]) == (deployment["name"], "llama.cpp")
            assert "UprightDown" not in prometheus.firing()
            os.kill(deployment["supervisor"]["pid"], signal.SIGKILL)  # its engine dies with it, and nobody restarts it
            alert = prometheus.wait(lambda: prometheus.firing().get("UprightDown"), "the alert")
            assert alert["labels"]["deployment"] == deployment["name"]
            assert alert["annotations"]["next"] == f"upright ps, then upright diagnose {deployment['name']}"
    finally:
        upright("down", deployment["name"])


class _asked:  # noqa: N801
    """Short questions with the same beginning, one after another, until the block ends."""

    def __init__(self, deployment: dict[str, str], key: str) -> None:
        self.url = f"{deployment['base_url']}/v1/chat/completions"
        self.model, self.key = deployment["served_name"], key
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        body = {"model": self.model, "max_tokens": 8, "messages": [{"role": "user", "content": "Say OK."}]}
        with httpx2.Client(trust_env=False, headers={"Authorization": f"Bearer {self.key}"}) as client:
            while not self.stop.wait(0.2):
                try:
                    client.post(self.url, json=body, timeout=30)
                except httpx2.HTTPError:
                    return  # the engine was killed

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)

"""A router whose processes are killed one after the other, while a client keeps asking: it comes back by itself, and
what the client is told meanwhile is true: 200, 503 with Retry-After, or no connection; never 401 for a right key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.command import command
from tests.conftest import TINY_MODEL
from tests.engines.test_line import left_running
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]
FLEET = """record: fleet
schema: 1
name: back
model: {model}
goal: {{context_tokens: 1024, users: 4}}
boxes: [{{name: a, port: {ports[0]}}}]
router: {{port: {ports[1]}, metrics_port: {ports[2]}, health_seconds: 1}}
"""


class AskedFleet:
    """A fleet of one box, and a client that asks it all the time."""

    def __init__(self, folder: Path, smg: Path, llama_server: Path) -> None:
        self.folder, self.home, self.ports = folder, folder / "home", [free_port() for _ in range(3)]
        (folder / "fleet.yaml").write_text(FLEET.format(model=TINY_MODEL, ports=self.ports))
        self.environment = {
            **os.environ, "UPRIGHT_HOME": str(self.home), "UPRIGHT_SMG": str(smg), "NO_COLOR": "1",
            "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
        }  # fmt: skip
        self.told: Counter[str] = Counter()
        self.stop = threading.Event()

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command(), "fleet", *arguments],
            capture_output=True, text=True, timeout=600, env=self.environment, cwd=self.folder, check=False,
        )  # fmt: skip

    def ask(self) -> str:
        key = (self.home / "fleets/back/client.key").read_text().strip()
        body = {"model": "tiny-kimi", "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 4}
        try:
            reply = httpx2.post(
                f"http://127.0.0.1:{self.ports[1]}/v1/chat/completions", json=body, timeout=60, trust_env=False,
                headers={"Authorization": f"Bearer {key}", "Connection": "close"},
            )  # fmt: skip
        except httpx2.TransportError:
            return "no connection"
        after = " Retry-After" if reply.status_code == 503 and "retry-after" in reply.headers else ""
        return f"{reply.status_code}{after}"

    def keep_asking(self) -> None:
        while not self.stop.is_set():
            self.told[self.ask()] += 1
            time.sleep(0.1)

    def deployment(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "deployments/back-router/deployment.json").read_text()))

    def children(self, pid: int) -> list[int]:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def sentinels(self) -> list[int]:
        pids = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                called = b"upright.flows.fleet.sentinel\0back" in (path / "cmdline").read_bytes()
                ours = str(self.home).encode() in (path / "environ").read_bytes()
            except OSError:
                continue
            pids += [int(path.name)] if called and ours else []
        return pids

    def watchers(self) -> list[int]:
        """Whoever has a watcher's lock: not one that was just started and finds it taken."""
        files = [self.home / f"fleets/back/sentinel-{number}" for number in (0, 1)]
        inodes = {str(path.stat().st_ino) for path in files if path.exists()}
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return [int(lock[4]) for lock in locks if lock[1] == "FLOCK" and lock[5].split(":")[-1] in inodes]

    def whole(self) -> bool:
        """It answers, the record names processes that live, and two watch: whoever is killed next is the one meant."""
        deployment = self.deployment()
        pids = [(deployment[process] or {}).get("pid") for process in ("process", "supervisor")]
        alive = all(Path(f"/proc/{pid}/cwd").exists() for pid in pids)
        if not alive or deployment["state"] != "ready" or not self.children(pids[0]) or len(self.watchers()) != 2:
            return False
        return self.ask() == "200"

    def until(self, holds: Callable[[], bool], what: str) -> float:
        began = time.monotonic()
        while not holds():
            assert time.monotonic() < began + 120, f"never: {what}; told {dict(self.told)}"
            time.sleep(0.1)
        return time.monotonic() - began


@pytest.fixture
def asked(tmp_path: Path, smg: Path, llama_server: Path) -> Iterator[AskedFleet]:
    made = AskedFleet(tmp_path, smg, llama_server)
    asking = threading.Thread(target=made.keep_asking, daemon=True)
    try:
        up = made("up")
        assert up.returncode == 0, up.stderr
        asking.start()
        yield made
    finally:
        made.stop.set()
        asking.join(70)
        down = made("down", "back")
        assert down.returncode == 0, down.stderr
        assert left_running(made.folder) == []
        made.until(lambda: made.sentinels() == [], "nobody watches")


def test_it_comes_back_whoever_is_killed(asked: AskedFleet, capsys: pytest.CaptureFixture[str]):
    seconds: dict[str, float] = {}
    victims: dict[str, Callable[[], list[int]]] = {
        "smg": lambda: asked.children(asked.deployment()["process"]["pid"]),
        "its keeper": lambda: [asked.deployment()["process"]["pid"]],
        "its supervisor": lambda: [asked.deployment()["supervisor"]["pid"]],
        "a watcher": lambda: asked.watchers()[:1],
        "the supervisor again": lambda: [asked.deployment()["supervisor"]["pid"]],
    }
    asked.until(asked.whole, "it is whole at first")
    for name, victim in victims.items():
        pids = victim()
        assert pids, name
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        asked.until(lambda pids=pids: not any(Path(f"/proc/{pid}/cwd").exists() for pid in pids), f"{name} is gone")
        seconds[name] = asked.until(asked.whole, f"it is back after {name}")
    assert set(asked.told) <= {"200", "503 Retry-After", "no connection"}, asked.told
    with capsys.disabled():
        shown = ", ".join(f"{name} {after:.1f} s" for name, after in seconds.items())
        print(f"\nback after a kill of {shown}; clients were told {dict(asked.told)}")

"""Twenty-five edits of fleet.yaml on four real llama-servers behind a real smg, under load, with kills in between."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command import command
from tests.conftest import TINY_MODEL
from tests.engines.streams import Streams
from tests.engines.test_fleet import end
from tests.engines.test_line import left_running
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(3600)]
SEED = 20261116


class EditedFleet:
    """A fleet.yaml that changes, and the commands that follow it."""

    def __init__(self, folder: Path, smg: Path, llama_server: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.chance = random.Random(SEED)
        self.ports = [free_port() for _ in range(6)]
        self.router_port = free_port()
        boxes = [{"name": name, "port": self.ports[number]} for number, name in enumerate("abcd")]
        self.content: dict[str, Any] = {
            "record": "fleet", "schema": 1, "name": "edited", "model": str(TINY_MODEL),
            "goal": {"context_tokens": 1024, "users": 4}, "boxes": boxes,
            "router": {"port": self.router_port, "metrics_port": free_port(), "health_seconds": 1},
        }  # fmt: skip
        self.environment = {
            **os.environ, "UPRIGHT_HOME": str(self.home), "UPRIGHT_SMG": str(smg), "NO_COLOR": "1",
            "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
        }  # fmt: skip
        self.number = 0

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "fleet.yaml").write_text(yaml.safe_dump(self.content, sort_keys=False))
        return subprocess.run(
            [*command(), "fleet", *arguments],
            capture_output=True, text=True, timeout=900, env=self.environment, cwd=self.folder, check=False,
        )  # fmt: skip

    def killed_roll(self, phase: str) -> None:
        """`kill -9` of a roll when it says so."""
        (self.folder / "fleet.yaml").write_text(yaml.safe_dump(self.content, sort_keys=False))
        rolling = subprocess.Popen(
            [*command(), "fleet", "roll"], env=self.environment, cwd=self.folder, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert rolling.stderr is not None
        for line in rolling.stderr:
            if re.search(rf": {phase}", line):
                rolling.send_signal(signal.SIGKILL)
                break
        rolling.wait(600)
        rolling.stderr.close()

    @property
    def boxes(self) -> list[dict[str, Any]]:
        return self.content["boxes"]  # type: ignore[no-any-return]

    def edit(self) -> str:
        kind = self.chance.choice(["add", "remove", "port", "recipe", "policy"])
        taken = {box["port"] for box in self.boxes}
        free = self.chance.choice([port for port in self.ports if port not in taken])
        if kind == "add" and len(self.boxes) < 5:
            self.number += 1
            self.boxes.append({"name": f"n{self.number}", "port": free})
        elif kind == "remove" and len(self.boxes) > 3:
            self.boxes.pop(self.chance.randrange(len(self.boxes)))
        elif kind == "policy":
            policies = ["cache_aware", "round_robin", "power_of_two"]
            policies.remove(self.content["router"].get("policy", "cache_aware"))
            self.content["router"]["policy"] = self.chance.choice(policies)
        elif kind == "port":
            self.chance.choice(self.boxes)["port"] = free
        else:
            kind, users = "recipe", self.chance.choice([2, 3, 5, 6])
            self.chance.choice(self.boxes)["goal"] = {"context_tokens": 1024, "users": users}
        return kind

    def deployment(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.home / f"deployments/{name}/deployment.json").read_text()))

    def look(self) -> dict[str, Any]:
        return dict(json.loads(self("status", "edited", "--json").stdout))

    def key(self) -> str:
        return (self.home / "fleets/edited/client.key").read_text().strip()


@pytest.fixture
def edited(tmp_path: Path, smg: Path, llama_server: Path) -> Iterator[EditedFleet]:
    made = EditedFleet(tmp_path, smg, llama_server)
    try:
        up = made("up", "--json")
        assert up.returncode == 0, up.stderr
        yield made
    finally:
        made("down", "edited")
        assert left_running(made.folder) == []


def test_twenty_five_edits_with_kills(edited: EditedFleet, capsys: pytest.CaptureFixture[str]):
    began, kinds, cut_by_kills, router_restarts, counted = time.monotonic(), [], 0, 0, 0
    for number in range(25):
        kind = edited.edit()
        kinds.append(kind)
        with Streams(edited.router_port, edited.key(), "tiny-kimi", count=8, tokens=60, pause_seconds=0.2) as load:
            load.until(lambda load=load: len(load.ended()) >= 8, "it runs")
            victim = edited.chance.choice(edited.look()["boxes"]) if number % 5 == 4 else None
            killed_at = time.monotonic()
            if victim is not None:
                end(edited.deployment(victim["deployment"])["process"]["pid"])
            if number % 4 == 3:
                edited.killed_roll(edited.chance.choice(["draining", "restarting", "proving", "admitting", "starting"]))
            rolled = edited("roll", "--json")
            assert rolled.returncode == 0, f"{kind}: {rolled.stdout} {rolled.stderr}"
        counted += len(load.ended())
        faults = load.faults()
        if victim is not None:
            died = [stream for stream in faults if stream.began < killed_at + 5]
            cut_by_kills += len(died)
            faults = [stream for stream in faults if stream not in died]
        if kind == "policy":  # a router that is restarted refuses for a moment, and cuts what outlives its grace
            router_restarts += len(faults)
            faults = []
        assert faults == [], f"{number} {kind}: {load.summary()}"
        check(edited)
    with capsys.disabled():
        print(
            f"\n25 edits of 4 real engines in {time.monotonic() - began:.0f} s: {', '.join(kinds)}; {counted} streams, "
            f"{cut_by_kills} cut by kills, {router_restarts} while the router restarted, 0 others"
        )


def check(edited: EditedFleet) -> None:
    """What runs is what is written; no engine is left that fleet.yaml does not name."""
    seen = edited.look()
    assert seen["well"], seen
    assert [(box["box"]) for box in seen["boxes"]] == [box["name"] for box in edited.boxes]
    record = json.loads((edited.home / "fleets/edited/fleet.json").read_text())
    assert [(box["name"], box["port"]) for box in record["boxes"]] == [
        (box["name"], box["port"]) for box in edited.boxes
    ]
    assert record["router"]["policy"] == edited.content["router"].get("policy", "auto")
    listed = json.loads((edited.home / "fleets/edited/router/workers.json").read_text())["workers"]
    assert {worker["url"] for worker in listed} == {f"http://127.0.0.1:{box['port']}" for box in edited.boxes}
    states = [json.loads(path.read_text())["state"] for path in (edited.home / "deployments").glob("*/deployment.json")]
    assert states.count("ready") == len(edited.boxes) + 1, "the boxes and the router"
    assert set(states) <= {"ready", "stopped", "failed"}

"""Twelve real llama-servers rolled in waves under load, and a bad recipe that only the canary meets."""

from __future__ import annotations

import json
import os
import re
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
from tests.engines.test_line import left_running
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(3600)]
BOXES = 12


class WideFleet:
    """A fleet of twelve on this machine."""

    def __init__(self, folder: Path, smg: Path, llama_server: Path) -> None:
        self.folder, self.home, self.router_port = folder, folder / "home", free_port()
        self.content: dict[str, Any] = {
            "record": "fleet", "schema": 1, "name": "wide", "model": str(TINY_MODEL),
            "goal": {"context_tokens": 1024, "users": 4},
            "boxes": [{"name": f"b{number:02}", "port": free_port()} for number in range(BOXES)],
            "router": {"port": self.router_port, "metrics_port": free_port(), "health_seconds": 1},
        }  # fmt: skip
        self.environment = {
            **os.environ, "UPRIGHT_HOME": str(self.home), "UPRIGHT_SMG": str(smg), "NO_COLOR": "1",
            "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
        }  # fmt: skip

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "fleet.yaml").write_text(yaml.safe_dump(self.content, sort_keys=False))
        return subprocess.run(
            [*command(), "fleet", *arguments],
            capture_output=True, text=True, timeout=1800, env=self.environment, cwd=self.folder, check=False,
        )  # fmt: skip

    def streams(self) -> Streams:
        key = (self.home / "fleets/wide/client.key").read_text().strip()
        return Streams(self.router_port, key, "tiny-kimi", count=12, tokens=40, pause_seconds=0.5)


@pytest.fixture
def wide(tmp_path: Path, smg: Path, llama_server: Path) -> Iterator[WideFleet]:
    made = WideFleet(tmp_path, smg, llama_server)
    try:
        up = made("up", "--json")
        assert up.returncode == 0, up.stderr
        yield made
    finally:
        made("down", "wide")
        assert left_running(made.folder) == []


def test_twelve_boxes_in_waves(wide: WideFleet, capsys: pytest.CaptureFixture[str]):
    seconds = {}
    for users, width in ((3, ("1", "1")), (2, ("1", "25%"))):
        wide.content["goal"]["users"] = users
        with wide.streams() as load:
            load.until(lambda load=load: len(load.ended()) >= 12, "it runs")
            began = time.monotonic()
            rolled = wide("roll", "--canary", width[0], "--max-unavailable", width[1], "--json")
            seconds[width[1]] = time.monotonic() - began
        assert rolled.returncode == 0, rolled.stderr
        assert {step["phase"] for step in json.loads(rolled.stdout)["steps"]} == {"done"}
        assert load.faults() == [], load.summary()
        count = 12 if width[1] == "1" else 5
        told = re.findall(r"^wave (\d+) of (\d+): .*?(?:; about .* left)?$", rolled.stderr, re.MULTILINE)
        assert told == [(str(number + 1), str(count)) for number in range(count)]
        assert len(re.findall(r"; about .* left$", rolled.stderr, re.MULTILINE)) == count - 1
    with capsys.disabled():
        shown = ", ".join(f"{width} out at once {taken:.0f} s" for width, taken in seconds.items())
        print(f"\na roll of {BOXES} under 12 streams, 0 failed: {shown}")
    _bad_canary(wide)


def _bad_canary(wide: WideFleet) -> None:
    shown = json.loads(wide("plan", "--json").stdout)[0]["recipe"]
    shown.pop("digest")
    for setting in shown["arguments"]:
        if setting["name"] == "--ctx-size":
            setting["name"] = "--no-such-flag"
    (wide.folder / "broken.json").write_text(json.dumps(shown))
    for box in wide.content["boxes"]:
        box["recipe"] = "broken.json"
    with wide.streams() as load:
        load.until(lambda: len(load.ended()) >= 12, "it runs")
        rolled = wide("roll", "--canary", "1", "--max-unavailable", "25%", "--json")
    assert rolled.returncode == 1, rolled.stderr
    assert [(step["box"], step["phase"]) for step in json.loads(rolled.stdout)["steps"]] == [("b00", "stepped back")]
    assert load.faults() == [], load.summary()

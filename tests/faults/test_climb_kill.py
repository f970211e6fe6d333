"""`kill -9` of a climb at any moment: it goes on where it was, nothing is lost, and nothing is passed that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.scripted.engine import Fault, ScriptedEngine
from upright.facts.records.evidence import Climb, Observation
from upright.facts.store import DeploymentDir
from upright.facts.store.journal import lines
from upright.proof.ladder.ladder import rung_names
from upright.proof.ladder.prompts import prompt_set

TO = "context"


def start(url: str, home: Path, to: str = TO) -> subprocess.Popen[str]:
    words = ["prove", "--base-url", url, "--model", "tiny-kimi", "--prompts", "tiny", "--to", to, "--json"]
    return subprocess.Popen(
        [*command(), *words],
        env={**os.environ, "UPRIGHT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def directory(home: Path) -> DeploymentDir:
    return DeploymentDir(next((home / "servers").iterdir()))


def asked(home: Path) -> list[str]:
    """Every probe in the journal, in order; reading it checks the chain."""
    return [f"{seen.rung} {seen.probe}" for seen in directory(home).entries(Observation)]


@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
def test_a_climb_killed_at_random_moments_goes_on(kills: int, tmp_path: Path) -> None:
    chance, engine = random.Random(kills), ScriptedEngine(prompt_set("tiny"))
    engine.delay_seconds = 0.02
    with engine.serving() as url:
        whole_climb = start(url, tmp_path / "whole")
        expected = json.loads(whole_climb.communicate(timeout=120)[0])
        took = [item["probe"] for item in expected["observations"]]
        killed = finished = 0
        while killed < kills:
            climb = start(url, tmp_path / "home")
            moment = chance.uniform(0.3, 4)
            try:
                climb.communicate(timeout=moment)
                finished += 1
            except subprocess.TimeoutExpired:
                climb.send_signal(signal.SIGKILL)
                climb.communicate()
                killed += 1
        last = start(url, tmp_path / "home")
        evidence = json.loads(last.communicate(timeout=120)[0])
    assert last.returncode == 0
    assert sorted(item["probe"] for item in evidence["observations"]) == sorted(took)  # what was skipped is asked again
    told, whole = ({item["probe"]: item["verdict"] for item in one["observations"]} for one in (evidence, expected))
    assert told == whole
    assert_each_climb_asked_everything_once(tmp_path / "home", took, finished + 1)


def assert_each_climb_asked_everything_once(home: Path, took: list[str], climbs: int) -> None:
    """Between a beginning and an end every probe is there once, whoever was killed in between; what was skipped told
    nothing, and is asked again.
    """
    begun, ended, probes, skipped = 0, 0, [], {"recipe", "template"}
    for line in lines(directory(home).evidence_file):
        if line.kind == Climb.kind:
            begun += line.content["event"] == "begun"
            if line.content["event"] == "ended":
                ended += 1
                assert probes == [probe for probe in took if probe not in skipped]
                probes = []
        elif line.kind == Observation.kind and line.content["probe"] not in skipped:
            probes.append(line.content["probe"])
    assert begun == ended >= climbs  # one that was killed after its end was written has ended too


def test_a_climb_that_was_killed_has_passed_nothing_yet(tmp_path: Path) -> None:
    engine = ScriptedEngine(prompt_set("tiny"))
    engine.delay_seconds = 0.3
    with engine.serving() as url:
        climb = start(url, tmp_path)
        while engine.requests < 6:
            assert climb.poll() is None
            time.sleep(0.02)
        climb.send_signal(signal.SIGKILL)
        climb.communicate()
        assert not (directory(tmp_path).path / "evidence.json").exists(), "no record of a climb that did not end"
        seen = asked(tmp_path)
        assert seen
        engine.fault, engine.delay_seconds = Fault("garbage"), 0.0
        again = start(url, tmp_path)
        evidence = json.loads(again.communicate(timeout=60)[0])
    assert again.returncode == 1
    assert [f"{item['rung']} {item['probe']}" for item in evidence["observations"]][: len(seen)] == seen
    assert "failed" in {item["verdict"] for item in evidence["observations"] if item["rung"] == "smoke"}


@pytest.mark.parametrize("rung", ["boot", "smoke", "tools", "context"])
def test_a_server_that_dies_inside_a_rung(rung: str, tmp_path: Path) -> None:
    """It is never passed; and when the server is back, the climb is done anew."""
    engine = ScriptedEngine(prompt_set("tiny"))
    engine.fault = Fault("disconnect", after_requests=requests_before(rung, tmp_path) + 1)
    with engine.serving() as url:
        climb = start(url, tmp_path / "home")
        evidence: Any = json.loads(climb.communicate(timeout=60)[0])
        assert climb.returncode == 1
        last = evidence["observations"][-1]
        assert (last["rung"], last["verdict"]) == (rung, "failed")
        assert "cannot be reached" in last["reason"]
        assert evidence["ended"].startswith("the server is gone")
        engine.fault = None
        again = start(url, tmp_path / "home")
        assert json.loads(again.communicate(timeout=60)[0])["observations"]
    assert again.returncode == 0


def requests_before(rung: str, folder: Path) -> int:
    """How many requests the rungs below take."""
    below = rung_names().index(rung) - 1
    if rung == "boot":
        return 0
    engine = ScriptedEngine(prompt_set("tiny"))
    with engine.serving() as url:
        start(url, folder / "below", to=rung_names()[below]).communicate(timeout=60)
    return engine.requests

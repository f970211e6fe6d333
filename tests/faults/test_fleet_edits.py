"""Random edits of fleet.yaml, rolled with kills in between: what runs becomes what is written, nothing is orphaned,
and no stream is lost but those of an engine that was killed.

The engines and the router are scripted (tests/scripted/fleet_world.py); four real ones are in tests/engines.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.scripted.fleet_world import FleetWorld
from upright.base.errors import LaunchError
from upright.facts.records.fleet import Fleet
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir, home
from upright.flows.fleet.boxes import admitted_urls
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.rolling import roll
from upright.flows.fleet.starting import up

SEED = 20261116
MACHINES = ("here", "ssh:near", "ssh:far")
FILE = Path("fleet.yaml")


class Editor:
    """A person who edits fleet.yaml, and what it says now."""

    def __init__(self, world: FleetWorld, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.world, self.chance, self.patch = world, chance, patch
        self.boxes = {name: self.place(port) for name, port in (("a", 8001), ("b", 8002), ("c", 8003))}
        self.router: dict[str, Any] = {"port": 9000, "metrics_port": 29000}
        self.number = 0
        self.key()

    def place(self, port: int) -> dict[str, Any]:
        return {"at": self.chance.choice(MACHINES), "port": port}

    def fleet(self) -> Fleet:
        boxes = [{"name": name, **box} for name, box in self.boxes.items()]
        content = {"name": "f", "model": "m", "boxes": boxes, "router": self.router, "client_key": "env:EDITED_KEY"}
        return Fleet.model_validate(content)

    def edit(self) -> str:
        edits = [self.add, self.remove, self.move, self.recipe, self.recipe, self.port, self.settings, self.key]
        kinds = [self.chance.choice(edits) for _ in range(self.chance.randint(1, 3))]
        for kind in kinds:
            kind()
        return "+".join(kind.__name__ for kind in kinds)

    def add(self) -> None:
        if len(self.boxes) < 6:
            self.number += 1
            self.boxes[f"n{self.number}"] = self.place(self.free_port())

    def remove(self) -> None:
        if len(self.boxes) > 2:
            del self.boxes[self.chance.choice([*self.boxes])]

    def move(self) -> None:
        self.some_box()["at"] = self.chance.choice(MACHINES)

    def recipe(self) -> None:
        self.number += 1
        tag = self.chance.choice([str(self.number)] * 4 + ["broken", "wrong"])
        self.world.tags[self.chance.choice([*self.boxes])] = tag

    def port(self) -> None:
        self.some_box()["port"] = self.free_port()

    def settings(self) -> None:
        self.router["policy"] = self.chance.choice(["auto", "round_robin", "power_of_two"])
        self.router["requests_at_once"] = self.chance.choice([None, 64, 128])

    def key(self) -> None:
        self.patch.setenv("EDITED_KEY", f"sk-clients-{self.chance.randint(1, 10**9)}")

    def mend(self) -> None:
        self.world.tags = {name: "1" if tag in ("broken", "wrong") else tag for name, tag in self.world.tags.items()}

    def some_box(self) -> dict[str, Any]:
        return self.boxes[self.chance.choice([*self.boxes])]

    def free_port(self) -> int:
        """One that no box is to have; one that runs may have it still, and leave it in the same roll."""
        ports = set(range(8001, 8012)) - {box["port"] for box in self.boxes.values()}
        return self.chance.choice(sorted(ports))


def settle(world: FleetWorld, editor: Editor, chance: random.Random) -> int:
    """Rolls until it is done; some are killed, and engines too. How many commands it took."""
    for command in range(1, 40):
        world.moments = chance.randint(1, 60) if command < 6 and chance.random() < 0.7 else -1
        if command < 4 and chance.random() < 0.2 and world.processes:
            world.kill(chance.choice([*world.processes]))
        fleet = editor.fleet()
        with world.killed_after(world.moments) as outcome:
            try:
                rolled = roll(fleet, FILE, tell=lambda message: None)
            except LaunchError as error:
                if "want each other's ports" in error.message:
                    editor.boxes = {
                        name: {**box, "port": 8020 + number} for number, (name, box) in enumerate(editor.boxes.items())
                    }
                    continue
                if "no box of f runs" not in error.message:
                    raise
                editor.mend()
                up(editor.fleet(), FILE, tell=lambda message: None)
                continue
        if outcome[0] and rolled.done:
            return command
        world.killed += not outcome[0]
        if outcome[0]:
            assert rolled.roll is not None
            assert rolled.roll.reason
            editor.mend()
    raise AssertionError(f"it never converges: {FleetDir('f').state().roll}")


def check(world: FleetWorld, fleet: Fleet) -> None:
    """What runs is what is written, no more and no less."""
    directory = FleetDir("f")
    state = directory.state()
    assert directory.fleet() == fleet
    assert [box.name for box in state.boxes if box.admitted] == [box.name for box in state.boxes]
    assert {box.name for box in state.boxes} == {box.name for box in fleet.boxes}
    by_deployment = {box.deployment: box.name for box in state.boxes}
    running = world.running_boxes()
    assert {by_deployment.get(name, name) for name in running} == {box.name for box in fleet.boxes}, "nothing orphaned"
    for box in fleet.boxes:
        process = running[state.box(box.name).deployment or ""]
        assert (process.machine, process.recipe) == (box.machine, world.recipe_of(fleet, box))
    router = world.processes[state.router or ""]
    assert router.recipe.made_from == DeploymentDir(home() / f"deployments/{state.router}").read(Recipe).made_from
    settings = {setting.name: setting.value for setting in router.recipe.arguments}
    if fleet.router.policy != "auto":
        assert settings["--policy"] == fleet.router.policy
    if fleet.router.requests_at_once is not None:
        assert settings["--max-concurrent-requests"] == str(fleet.router.requests_at_once)
    assert DeploymentDir(home() / f"deployments/{state.router}").key() == os.environ["EDITED_KEY"]
    world.read_list()
    assert world.view == set(admitted_urls(fleet, state).values())
    assert len(world.view) == len(fleet.boxes)
    assert world.lost == []


def edited(count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, FleetWorld]:
    chance = random.Random(seed)
    world = FleetWorld("f", chance)
    world.install(monkeypatch)
    editor = Editor(world, chance, monkeypatch)
    up(editor.fleet(), FILE, tell=lambda message: None)
    check(world, editor.fleet())
    commands = 0
    for _ in range(count):
        editor.edit()
        commands += settle(world, editor, chance)
        check(world, editor.fleet())
    return commands, world


@pytest.mark.slow
def test_forty_edits(tmp_path, monkeypatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    edited(40, SEED, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_five_hundred_edits(tmp_path, monkeypatch, part: int, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    commands, world = edited(50, SEED + 1 + part, monkeypatch)
    with capsys.disabled():
        killed = f"{commands} commands, {world.killed} of them killed"
        print(f"\n50 edits, {killed}, {world.opened} streams, {len(world.lost)} lost")

"""Engines and a router that are entries of a table, behind the real reconciliation: records, lists and rolls are real.

Every act of the fleet's commands is a moment at which the command may be killed. Clients open streams at whatever the
router lists, all the time; an engine that is ended with streams on it, by anything but a kill, has lost them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upright.base.errors import LaunchError
from upright.base.progress import utc_now
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.fleet import Fleet, FleetBox
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.flows.fleet import (
    box_steps,
    boxes,
    current_status,
    roll_plan,
    rolling,
    router_api,
    router_control,
    router_step,
    starting,
    stopping,
)
from upright.flows.fleet.box_plans import BoxPlan
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.router_api import Worker
from upright.flows.line import Prepared
from upright.planning.rendering.router import router_recipe
from upright.serving.launch.launch import _of_recipe, _set_aside, base_url_for, with_fields


class KilledError(BaseException):
    """The command is gone, between two of its acts."""


@dataclass
class ScriptedProcess:
    recipe: Recipe
    machine: str | None
    base_url: str
    streams: int = 0


class FleetWorld:
    """A fleet's machines, its clients, and whoever kills commands."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self.chance = name, chance
        self.processes: dict[str, ScriptedProcess] = {}
        """By deployment."""
        self.view: set[str] = set()
        """URLs that the router sends requests to: what it read last."""
        self.lost: list[str] = []
        self.opened = 0
        self.killed = 0
        """Commands that were killed."""
        self.moments = -1
        """Acts until the command is killed; below zero, never."""
        self.tags: dict[str, str] = {}
        """What is new about a box's recipe; `broken` falls at its start, `wrong` fails its proof."""

    # what the commands are given instead

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for module in (boxes, box_steps, router_control):
            patch.setattr(module, "restart", self.restart)
        for module in (boxes, roll_plan, router_control, current_status):
            patch.setattr(module, "status", self.status)
        for module in (rolling, starting):
            patch.setattr(module, "plan_fleet", self.plan)
        patch.setattr(boxes, "start", self.start)
        patch.setattr(boxes, "measure_residuals", lambda directory, **_: None)
        patch.setattr(boxes, "in_flight", self.in_flight)
        patch.setattr(boxes.time, "sleep", lambda seconds: None)
        patch.setattr(starting.sentinel, "start_watchers", lambda directory: None)
        patch.setattr(stopping, "stop", self.stop)
        patch.setattr(router_control, "launch", self.launch)
        patch.setattr(router_control, "wait_until", self.wait_until)
        for module in (starting, router_step):
            patch.setattr(module, "prove_router", lambda *_: SimpleNamespace(passed=True, observations=()))
        patch.setattr(box_steps, "prove_deployment", self.prove)
        patch.setattr(router_api.RouterFiles, "python", lambda *_: ("python3", "1.13.0"))
        patch.setattr(router_api.RouterFiles, "folder", property(lambda files: str(files._directory.path / "router")))
        patch.setattr(router_api, "SshHost", lambda machine: None)
        write, act = FleetDir.write, self.act

        def written(directory: FleetDir, state: Any) -> None:
            act()
            write(directory, state)
            act()

        patch.setattr(FleetDir, "write", written)

    def plan(self, fleet: Fleet, folder: Path, *, boxes: tuple[FleetBox, ...] = (), **_: Any) -> list[Any]:
        plans = []
        for box in boxes or fleet.boxes:
            made: Any = Prepared(fleet, fleet, fleet, self.recipe_of(fleet, box))  # type: ignore[arg-type]
            plans.append(BoxPlan(box, made))
        return plans

    def recipe_of(self, fleet: Fleet, box: FleetBox) -> Recipe:
        recipe = router_recipe(fleet, folder="/m", program="engine", served_name="m", context_tokens=1024)
        tag = Setting(name="--tag", value=self.tags.get(box.name, "0"), reason="of this test")
        host = box.address or "127.0.0.1"
        more = {"engine": "llama.cpp", "arguments": (tag,), "port": box.port, "host": host, "metrics_path": "/metrics"}
        return recipe.model_copy(update={**more, "made_from": (), "users": 1})

    def restart(self, here: DeploymentDir, recipe: Recipe | None = None, **_: Any) -> Deployment:
        self.act()
        old = here.read(Recipe)
        wanted, present = recipe or old, self.status(here)
        base_url = wanted.base_url if present.machine is None else present.base_url
        self.refuse_taken(wanted, present.machine, but=here.name)
        self.stop(here)
        self.act()
        if wanted != old:
            _set_aside(here, old)
            here.write(wanted)
        self.act()
        now = here.read(Deployment)
        return self.begin(here, wanted, with_fields(now, base_url=base_url, **_of_recipe(wanted, here)))

    def launch(
        self, recipe: Recipe, here: DeploymentDir, *, machine: str | None = None, port: int | None = None, **_: Any
    ) -> Deployment:
        self.refuse_taken(recipe, machine, but=here.name)
        self.act()
        here.key()
        here.write(recipe)
        now = utc_now()
        made = Deployment(
            name=here.name, state="planned", base_url=base_url_for(recipe, machine, port), machine=machine,
            created_at=now, changed_at=now, made_from=(recipe.reference,), **_of_recipe(recipe, here),
        )  # fmt: skip
        here.write(made)
        self.act()
        return self.begin(here, recipe, made)

    def start(self, prepared: Prepared, here: DeploymentDir, *, on: Any, **_: Any) -> Deployment:
        assert prepared.recipe is not None
        return self.launch(prepared.recipe, here, machine=on.machine, port=on.port)

    def begin(self, here: DeploymentDir, recipe: Recipe, made: Deployment) -> Deployment:
        if any(setting.value == "broken" for setting in recipe.arguments):
            here.write(with_fields(made, state="failed", reason="it fell"))
            raise LaunchError("it fell")
        self.processes[here.name] = ScriptedProcess(recipe, made.machine, made.base_url)
        ready = with_fields(made, state="ready", reason=None)
        here.write(ready)
        self.act()
        return ready

    def stop(self, here: DeploymentDir) -> Deployment:
        self.act()
        process = self.processes.pop(here.name, None)
        if process is not None and process.streams:
            self.lost.append(f"{process.streams} streams of {here.name}")
        now = here.read(Deployment)
        if now.state in RUNNING:
            here.write(with_fields(now, state="stopped", reason="stopped on request"))
        self.act()
        return here.read(Deployment)

    def status(self, here: DeploymentDir) -> Deployment:
        now = here.read(Deployment)
        if now.state in RUNNING and here.name not in self.processes:
            now = with_fields(now, state="failed", reason="killed")
            here.write(now)
        return now

    def refuse_taken(self, recipe: Recipe, machine: str | None, *, but: str) -> None:
        for name, process in self.processes.items():
            if name != but and (process.machine, process.recipe.port) == (machine, recipe.port):
                raise LaunchError(f"port {recipe.port} is taken by {name}")

    def prove(self, here: DeploymentDir, *_: Any) -> Any:
        self.act()
        failed = any(setting.value == "wrong" for setting in here.read(Recipe).arguments)
        seen = [SimpleNamespace(verdict="failed", rung="smoke", check="sum", reason="2+2=5")] if failed else []
        return SimpleNamespace(passed=not failed, observations=seen)

    def wait_until(
        self, base_url: str, keys: Any, holds: Callable[[dict[str, Worker]], bool], *, what: str, **_: Any
    ) -> None:
        self.act()
        self.read_list()
        alive = {process.base_url for process in self.processes.values()}
        if not holds({url: Worker(url, "ready", url in alive, 0) for url in self.view}):
            raise LaunchError(f"the router never said that {what}")

    def in_flight(self, here: DeploymentDir) -> int:
        process = self.processes[here.name]
        left = process.streams
        if process.base_url not in self.view:
            process.streams = max(0, left - self.chance.randint(0, 2))
        return left

    # what happens by itself

    def act(self) -> None:
        """A moment: clients ask, the router may read its list, and the command may be killed."""
        if self.chance.random() < 0.3:
            self.read_list()
        for process in self.processes.values():
            process.streams -= process.streams > 1 and self.chance.random() < 0.3  # an answer ends by itself
            if process.base_url in self.view and process.streams < 3:
                process.streams += 1
                self.opened += 1
        self.moments -= 1
        if self.moments == 0:
            raise KilledError

    @property
    def router(self) -> str | None:
        state = FleetDir(self.name).state()
        return state.router if state.router in self.processes else None

    def read_list(self) -> None:
        path = FleetDir(self.name).path / "router/workers.json"
        listed = json.loads(path.read_text())["workers"] if path.exists() and self.router else []
        self.view = {worker["url"] for worker in listed}

    def kill(self, deployment: str) -> None:
        """kill -9: its streams are the killed one's; a router that is gone sends nothing to anybody."""
        self.processes.pop(deployment, None)
        self.read_list()

    @contextmanager
    def killed_after(self, moments: int) -> Iterator[list[bool]]:
        """The command inside is killed at that moment, if it lasts as long."""
        self.moments, outcome = moments, [False]
        try:
            with suppress(KilledError):
                yield outcome
                outcome[0] = True
        finally:
            self.moments = -1

    def running_boxes(self) -> dict[str, ScriptedProcess]:
        router = FleetDir(self.name).state().router
        return {name: process for name, process in self.processes.items() if name != router}

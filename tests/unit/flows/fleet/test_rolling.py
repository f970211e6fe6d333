"""What a roll does when a box does not drain, does not come up, fails its proof, or is the only one left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upright.base.errors import LaunchError
from upright.facts import store
from upright.facts.records.deployment import Deployment, Process
from upright.facts.records.fleet import BoxState, Fleet, FleetBox, FleetState, Roll, RollStep
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.flows.fleet import box_steps, boxes, roll_plan, rolling, stopping
from upright.flows.fleet.current_status import fleet_status
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.rolling import roll
from upright.flows.fleet.waves import RollWidth
from upright.planning.rendering.router import router_recipe
from upright.serving.launch.launch import utc_now

NAMES = ("a", "b", "c")


class World:
    """Boxes that are records on disk; what is done to them is written down instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.broken: set[str] = set()
        """Boxes that do not come up with a new recipe."""
        self.refused: set[str] = set()
        """Boxes that are not restarted with one: their engine runs on."""
        self.starts = Counter(NAMES)
        self.unproved: set[str] = set()
        self.busy: set[str] = set()
        self.fits = True
        boxes = tuple(FleetBox(name=name, port=8000 + number) for number, name in enumerate(NAMES))
        self.fleet = Fleet(name="f", model="m", boxes=boxes)
        self.directory = FleetDir("f")
        self.directory.create(self.fleet)
        self.old = router_recipe(self.fleet, folder="/r", program="python3", served_name="m", context_tokens=1024)
        more = (*self.old.arguments, Setting(name="--log-level", value="debug", reason="new"))
        self.new = self.old.model_copy(update={"arguments": more})
        states = []
        for name in NAMES:
            here = store.create(f"f-{name}")
            here.write(self.old)
            here.write(deployment(here.name, self.old))
            states.append(BoxState(name=name, deployment=here.name, admitted=True))
        self.directory.write(FleetState(name="f", boxes=tuple(states)))
        monkeypatch.setattr(rolling, "plan_fleet", self.plan)
        monkeypatch.setattr(rolling.sentinel, "start_watchers", lambda directory: None)
        monkeypatch.setattr(box_steps, "restart", self.restart)
        monkeypatch.setattr(box_steps, "prove_deployment", self.prove)
        monkeypatch.setattr(box_steps, "admit", self.admit)
        monkeypatch.setattr(stopping, "stop", self.stop)
        monkeypatch.setattr(roll_plan, "_of_router", lambda *_, **__: None)
        monkeypatch.setattr(roll_plan, "running_router", lambda directory: object())
        for module in (box_steps, rolling, roll_plan):
            monkeypatch.setattr(module, "running_deployment", self.running)
        self.left: int | None = 3
        """Requests of a busy box."""
        monkeypatch.setattr(
            box_steps, "wait_until_idle", lambda here, **_: self.left if here.name[-1] in self.busy else 0
        )

    def stop(self, here: DeploymentDir) -> Deployment:
        self.done.append(f"{here.name[-1]} stopped")
        return here.read(Deployment).model_copy(update={"state": "stopped"})

    def plan(self, fleet: Fleet, folder: Path, **_: Any) -> list[Any]:
        record = SimpleNamespace(to_json=lambda: "{}", kind="box")
        made = SimpleNamespace(recipe=self.new, box=record, model=record, plan=record)
        return [SimpleNamespace(box=box, prepared=made, ready=self.fits) for box in fleet.boxes]

    def restart(self, here: DeploymentDir, recipe: Recipe) -> None:
        name, new = here.name[-1], recipe == self.new
        if new and name in self.refused:
            raise LaunchError("port 8101 is taken")
        self.starts[name] += 1
        self.done.append(f"{name} {'new' if new else 'old'}")
        if here.read(Recipe) != recipe:
            (here.path / "recipe-1.json").write_text(here.read(Recipe).to_json())
            here.write(recipe)
        if new and name in self.broken:
            raise LaunchError("it fell")

    def running(self, known: BoxState) -> Deployment:
        supervisor = Process(pid=self.starts[known.name], started_ticks=0)
        return deployment("x", self.old).model_copy(update={"supervisor": supervisor})

    def prove(self, here: DeploymentDir, *_: Any) -> Any:
        failed = here.name[-1] in self.unproved and here.read(Recipe) == self.new
        seen = [SimpleNamespace(verdict="failed", rung="smoke", check="sum", reason="2+2=5")] if failed else []
        return SimpleNamespace(passed=not failed, observations=seen)

    def admit(self, fleet: Fleet, directory: FleetDir, keys: Any, name: str, *, admitted: bool, **_: Any) -> None:
        self.done.append(f"{name} {'in' if admitted else 'out'}")
        directory.change(lambda state: state.with_box(state.box(name).model_copy(update={"admitted": admitted})))

    def roll(self, **more: Any) -> Roll:
        made = roll(self.fleet, Path("fleet.yaml"), tell=lambda words: None, **more).roll
        assert made is not None
        assert self.directory.state().roll == made, "what is told is on disk"
        return made

    def recipe(self, name: str) -> str:
        return "new" if DeploymentDir(store.home() / f"deployments/f-{name}").read(Recipe) == self.new else "old"


def deployment(name: str, recipe: Recipe) -> Deployment:
    now = utc_now()
    return Deployment(
        name=name, state="stopped", engine=recipe.engine, engine_version=None, served_name="m", base_url="http://x:1",
        context_tokens=1024, created_at=now, changed_at=now, made_from=(recipe.reference,),
    )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(DeploymentDir, "write", _write)
    return World(monkeypatch)


_real_write = DeploymentDir.write


def _write(self: DeploymentDir, record: Any) -> None:
    if not isinstance(record, SimpleNamespace):
        _real_write(self, record)


def test_one_box_after_the_other(world: World):
    made = world.roll()
    assert made.outcome == "done"
    assert world.done == [f"{name} {what}" for name in NAMES for what in ("out", "new", "in")]
    assert world.roll().steps == (), "a second time there is nothing to do"
    assert [step.phase for step in world.roll(again=True).steps] == ["done"] * 3


@pytest.mark.parametrize("how", ["broken", "unproved"])
def test_the_first_failure_is_stepped_back_and_ends_the_roll(world: World, how: str):
    getattr(world, how).add("b")
    made = world.roll()
    assert made.outcome == "stopped"
    assert "b failed with the new recipe and has its old one again" in (made.reason or "")
    assert world.done[3:] == ["b out", "b new", "b old", "b in"]
    assert [world.recipe(name) for name in NAMES] == ["new", "old", "old"]
    assert [(step.box, step.phase) for step in made.steps] == [("a", "done"), ("b", "stepped back")]
    assert all(box.admitted for box in world.directory.state().boxes)


def test_the_first_bad_wave_is_the_last(world: World):
    """b and c go together after the canary a: b fails and is stepped back, c stands with the new recipe."""
    world.unproved.add("b")
    made = world.roll(width=RollWidth(canary=1, max_unavailable="2"))
    assert made.outcome == "stopped"
    assert world.done[:3] == ["a out", "a new", "a in"]
    assert {step.box: step.phase for step in made.steps} == {"a": "done", "b": "stepped back", "c": "done"}
    assert [world.recipe(name) for name in NAMES] == ["new", "old", "new"]
    assert all(box.admitted for box in world.directory.state().boxes)


def test_a_bad_canary_is_the_only_box_that_was_touched(world: World):
    world.broken.add("a")
    made = world.roll(width=RollWidth(canary=1, max_unavailable="2"))
    assert made.outcome == "stopped"
    assert [step.box for step in made.steps] == ["a"]
    assert {done[0] for done in world.done} == {"a"}


def test_a_recipe_that_is_refused_leaves_the_engine_alone(world: World):
    world.refused.add("b")
    made = world.roll()
    assert made.reason == "b was not restarted and has its old recipe: port 8101 is taken"
    assert world.done[3:] == ["b out", "b in"]
    assert [(step.box, step.phase) for step in made.steps] == [("a", "done"), ("b", "stepped back")]


def test_a_box_whose_requests_do_not_end_is_not_restarted(world: World):
    world.busy.add("a")
    made = world.roll()
    assert made.reason == "a still had 3 requests after 900 s; it was not restarted"
    assert world.done == ["a out", "a in"]


def test_a_box_that_does_not_tell_its_requests_is_not_restarted(world: World):
    world.busy.add("a")
    world.left = None
    made = world.roll()
    assert made.reason == "a does not tell how many requests it has; it was not restarted"
    assert world.done == ["a out", "a in"]


def test_requests_that_an_engine_does_not_count_are_unknown(world: World, monkeypatch: pytest.MonkeyPatch):
    here = DeploymentDir(store.home() / "deployments/f-a")
    monkeypatch.setattr(boxes, "in_flight", lambda directory: None)
    here.write(world.old.model_copy(update={"metrics_path": "/metrics"}))
    assert boxes.wait_until_idle(here, seconds=0.01, tell=print) is None
    here.write(world.old.model_copy(update={"metrics_path": None}))
    assert boxes.wait_until_idle(here, seconds=900, tell=print) is None


def test_the_only_box_that_answers_is_never_drained(world: World):
    world.fleet = world.fleet.model_copy(update={"boxes": world.fleet.boxes[:1]})
    world.directory.create(world.fleet)
    world.directory.change(lambda state: state.without("b").without("c"))
    made = world.roll()
    assert "a is the only box that answers" in (made.reason or "")
    assert world.done == []


def test_boxes_that_nobody_is_sent_to_come_first(world: World):
    """Then the one that answered alone can be drained."""
    for name in ("b", "c"):
        world.directory.change(
            lambda state, name=name: state.with_box(state.box(name).model_copy(update={"admitted": False}))
        )
    assert world.roll().outcome == "done"
    assert [done for done in world.done if done.endswith("in")] == ["b in", "c in", "a in"]


def test_a_box_that_is_down_is_started_though_no_other_answers(world: World, monkeypatch: pytest.MonkeyPatch):
    """a is down and listed, b and c run and are not: whoever brings them back leaves nobody without an answer."""
    state = world.directory.state()
    for name in ("b", "c"):
        state = state.with_box(state.box(name).model_copy(update={"admitted": False}))
    world.directory.write(state)
    down = {"a"}

    def running(known: BoxState) -> Deployment | None:
        return None if known.name in down and world.starts[known.name] == 1 else world.running(known)

    for module in (box_steps, rolling, roll_plan):
        monkeypatch.setattr(module, "running_deployment", running)
    assert world.roll().outcome == "done"
    assert all(box.admitted for box in world.directory.state().boxes)


def test_a_step_back_that_was_killed_drains_before_it_goes_on(world: World):
    """It was on the list again, with streams on it, and its last phase was not written."""
    step = RollStep.model_validate(
        {
            "box": "a", "phase": "stepping back", "before": world.old.reference, "after": world.new.reference,
            "reason": "2+2=5", "at": utc_now(),
        }
    )  # fmt: skip
    world.directory.write(world.directory.state().model_copy(update={"roll": Roll(begun_at=utc_now(), steps=(step,))}))
    made = world.roll()
    assert made.outcome == "stopped"
    assert "a failed with the new recipe and has its old one again: 2+2=5" in (made.reason or "")
    assert world.done == ["a out", "a old", "a in"]


def test_a_box_that_the_fleet_no_longer_names_is_drained_and_stopped(world: World):
    world.fleet = world.fleet.model_copy(update={"boxes": world.fleet.boxes[:1]})
    made = world.roll()
    assert made.outcome == "done"
    assert world.done == ["a out", "a new", "a in", "b out", "b stopped", "c out", "c stopped"]
    assert [(step.box, step.kind, step.phase) for step in made.steps[1:]] == [
        ("b", "remove", "done"),
        ("c", "remove", "done"),
    ]
    assert [box.name for box in world.directory.state().boxes] == ["a"]
    assert world.directory.fleet() == world.fleet


def test_a_box_whose_requests_do_not_end_does_not_leave(world: World):
    world.busy.add("c")
    world.fleet = world.fleet.model_copy(update={"boxes": world.fleet.boxes[:2]})
    made = world.roll()
    assert made.reason == "c still had 3 requests after 900 s; it was not stopped"
    assert "c stopped" not in world.done
    assert [box.name for box in world.directory.fleet().boxes] == ["a", "b", "c"], "what runs, not what was wished"
    assert all(box.admitted for box in world.directory.state().boxes)


@pytest.mark.parametrize("phase", ["draining", "restarting", "proving", "admitting"])
def test_a_roll_that_was_killed_is_told_of_and_goes_on(world: World, phase: str):
    here = DeploymentDir(store.home() / "deployments/f-a")
    if phase != "draining":
        world.restart(here, world.new)
    step = RollStep.model_validate(
        {"box": "a", "phase": phase, "before": world.old.reference, "after": world.new.reference, "at": utc_now()}
    )
    state = world.directory.state()
    state = state.with_box(state.box("a").model_copy(update={"admitted": False}))
    world.directory.write(state.model_copy(update={"roll": Roll(begun_at=utc_now(), steps=(step,))}))
    seen = fleet_status(world.fleet)
    assert seen.roll == f"a roll is interrupted at a, {phase}"
    assert seen.wants == "roll"
    world.done.clear()
    world.unproved.add("a")
    made = world.roll()
    assert made.outcome == "stopped"
    assert world.recipe("a") == "old", "back to what it had before the roll that was killed"
    assert world.done == ["a out", "a new", "a old", "a in"]
    assert fleet_status(world.fleet).roll == f"the last roll was stopped: {made.reason}"


def test_a_roll_that_stops_leaves_what_runs_in_the_record(world: World):
    """fleet.json holds what was applied so far: a has the new port, b and c have not."""
    before = world.fleet
    moved = tuple(box.model_copy(update={"port": box.port + 100}) for box in before.boxes)
    world.fleet = before.model_copy(update={"boxes": moved, "drain_seconds": 5})
    world.broken.add("b")
    assert world.roll().outcome == "stopped"
    assert [box.port for box in world.directory.fleet().boxes] == [8100, 8001, 8002]


def test_a_roll_that_does_not_fit_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch):
    before, keys = world.fleet, world.directory.keys()
    monkeypatch.setenv("ANOTHER", "sk-another-key")
    world.fleet, world.fits = before.model_copy(update={"drain_seconds": 5, "client_key": "env:ANOTHER"}), False
    assert roll(world.fleet, Path("fleet.yaml"), tell=lambda words: None).roll is None
    assert world.directory.fleet() == before
    assert world.directory.keys() == keys
    world.fits = True
    assert world.roll().outcome == "done"
    assert world.directory.fleet() == world.fleet

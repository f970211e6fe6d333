"""What `up` and `down` do when boxes do not come up, have died, or cannot be reached."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.flows.fleet.test_rolling import deployment
from upright.base.errors import HostError, LaunchError
from upright.facts import store
from upright.facts.records.deployment import Deployment, State
from upright.facts.records.fleet import BoxState, Fleet, FleetBox, FleetState
from upright.facts.store import DeploymentDir
from upright.flows.fleet import boxes, router_control, starting, stopping
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.rolling import roll
from upright.flows.fleet.starting import FleetStart, down, up
from upright.planning.rendering.router import router_recipe


def a_pair(**more: Any) -> Fleet:
    boxes = ({"name": "a", "port": 8001}, {"name": "b", "port": 8002})
    return Fleet.model_validate({"name": "pair", "model": "m", "boxes": boxes, **more})


class Pair:
    """Two boxes that were started once; engines and router are told of instead of started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.lists: list[dict[str, str]] = []
        """What the router was told to list, each time."""
        self.alive: set[str] = set()
        self.broken: set[str] = set()
        """Boxes that do not come up."""
        self.fits = True
        self.fleet = a_pair()
        self.directory = FleetDir("pair")
        self.directory.create(self.fleet)
        states = []
        for box in self.fleet.boxes:
            here, recipe = store.create(f"pair-{box.name}"), self.recipe(box.port)
            here.write(recipe)
            here.write(deployment(here.name, recipe).model_copy(update={"base_url": recipe.base_url}))
            states.append(BoxState(name=box.name, deployment=here.name, admitted=True))
        self.directory.write(FleetState(name="pair", boxes=tuple(states)))
        self.away: set[str] = set()
        """Boxes whose machine cannot be reached."""
        files = SimpleNamespace(write=lambda keys: None, list_boxes=self.lists.append, remove=self.remove_keys)
        stand_ins = {
            "running_deployment": lambda known: known.name in self.alive,
            "plan_fleet": self.plan,
            "start_box": self.start_box,
            "RouterFiles": lambda *_: files,
            "wanted_router_recipe": lambda *_: self.recipe(9000),
            "prove_router": lambda *_: SimpleNamespace(passed=True, observations=()),
        }
        for name, instead in stand_ins.items():
            monkeypatch.setattr(starting, name, instead)
        monkeypatch.setattr(starting.sentinel, "start_watchers", lambda directory: None)
        monkeypatch.setattr(stopping, "stop", self.stop)
        monkeypatch.setattr(router_control, "RouterFiles", lambda *_: files)
        monkeypatch.setattr(router_control, "wait_until", lambda *_, **__: None)
        monkeypatch.setattr(router_control, "_launched", lambda *_: deployment("pair-router", self.recipe(9000)))

    def recipe(self, port: int) -> Any:
        made = router_recipe(self.fleet, folder="/r", program="python3", served_name="m", context_tokens=1024)
        return made.model_copy(update={"port": port})

    def plan(self, fleet: Fleet, folder: Path, *, boxes: tuple[FleetBox, ...], **_: Any) -> list[Any]:
        return [SimpleNamespace(box=box, prepared=SimpleNamespace(), ready=self.fits) for box in boxes]

    def start_box(self, fleet: Fleet, box: FleetBox, prepared: Any, known: BoxState, *_: Any) -> BoxState:
        if box.name in self.broken:
            raise LaunchError(f"pair-{box.name} did not come up: it fell", hint=f"upright diagnose pair-{box.name}")
        self.alive.add(box.name)
        return known

    def stop(self, here: DeploymentDir) -> Deployment:
        """A machine that is away: the supervisor of what runs there says so, and what had failed is looked for."""
        name, now = here.name.removeprefix("pair-"), here.read(Deployment)
        if name not in self.away:
            return now.model_copy(update={"state": "failed" if now.state == "failed" else "stopped"})
        if now.state == "failed":
            raise HostError(f"{name} cannot be reached")
        words = f"{name} is away; what runs on {name} could not be ended"
        return now.model_copy(update={"state": "failed", "reason": words, "machine": name})

    def remove_keys(self) -> None:
        if "router" in self.away:
            raise HostError("the router's machine is away")

    def has(self, name: str, state: State, **more: Any) -> None:
        here = store.find(f"pair-{name}")
        here.write(here.read(Deployment).model_copy(update={"state": state, **more}))

    def up(self) -> FleetStart:
        return up(self.fleet, Path("fleet.yaml"), tell=self.said.append)

    def admitted(self) -> list[str]:
        return [box.name for box in self.directory.state().boxes if box.admitted]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    return Pair(monkeypatch)


def test_a_box_that_does_not_come_up_again_is_not_waited_for(pair: Pair):
    pair.broken = {"a"}
    made = pair.up()
    assert list(made.problems) == ["a"]
    assert made.evidence is not None, "the other is proved"
    assert pair.lists == [{"b": "http://127.0.0.1:8002"}]
    assert pair.admitted() == ["b"]
    assert "a: pair-a did not come up: it fell (upright diagnose pair-a)" in pair.said


def test_no_box_comes_up_again(pair: Pair):
    pair.broken = {"a", "b"}
    made = pair.up()
    assert list(made.problems) == ["a", "b"]
    assert made.router is None
    assert pair.admitted() == []
    pair.broken = set()
    assert pair.up().stands
    assert pair.admitted() == ["a", "b"]


def test_boxes_that_run_are_listed_where_they_run(pair: Pair):
    pair.alive = {"a", "b"}
    pair.fleet = a_pair(boxes=({"name": "a", "port": 8101}, {"name": "b", "port": 8002, "address": "10.0.0.2"}))
    assert pair.up().stands
    assert pair.lists == [{"a": "http://127.0.0.1:8001", "b": "http://127.0.0.1:8002"}]


def test_an_up_that_starts_nothing_changes_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    before, key = pair.directory.fleet(), pair.directory.keys().client
    monkeypatch.setenv("ANOTHER", "sk-another-key")
    pair.fleet, pair.fits = a_pair(drain_seconds=5, client_key="env:ANOTHER"), False
    assert pair.up().router is None
    with pair.directory.at_work(), pytest.raises(LaunchError, match="another command is at work"):
        pair.up()
    assert pair.directory.fleet() == before
    assert pair.directory.keys().client == key
    pair.fits = True
    assert pair.up().stands
    assert pair.directory.fleet() == pair.fleet
    assert pair.directory.keys().client == "sk-another-key"


@pytest.mark.parametrize("state", ["ready", "failed"])
def test_down_goes_on_past_a_machine_that_is_away(pair: Pair, state: State):
    pair.has("a", state)
    pair.away = {"a"}
    ended = down(pair.fleet, tell=pair.said.append)
    assert list(ended.problems) == ["pair-a"]
    assert [(each.name, each.state) for each in ended.deployments] == [("pair-b", "stopped")]
    assert pair.admitted() == []


def test_down_goes_on_past_the_routers_machine(pair: Pair):
    here = store.create("pair-router")
    here.write(deployment("pair-router", pair.recipe(9000)))
    pair.directory.write(pair.directory.state().model_copy(update={"router": "pair-router"}))
    pair.away = {"router"}
    ended = down(pair.fleet, tell=pair.said.append)
    assert list(ended.problems) == ["pair-router"]
    assert [each.name for each in ended.deployments] == ["pair-a", "pair-b"]


def test_a_box_that_had_fallen_before_is_down(pair: Pair):
    pair.has("a", "failed")
    assert down(pair.fleet, tell=pair.said.append).problems == {}


ELSEWHERE = ({"name": "a", "at": "ssh:far", "local_port": 41000}, {"name": "b", "port": 8002})


def test_a_box_that_runs_elsewhere_is_left_as_it_is(pair: Pair):
    """`up` touches nothing that runs; a roll moves it, and until then the record says where it runs."""
    pair.alive = {"a", "b"}
    before = pair.directory.fleet()
    pair.fleet = a_pair(boxes=ELSEWHERE, drain_seconds=5)
    assert pair.up().stands
    assert pair.directory.fleet().boxes == before.boxes
    assert pair.directory.fleet().drain_seconds == 5
    assert "upright fleet plan" in pair.said[-1]


def test_a_box_that_fleet_yaml_no_longer_names_stays_on_the_list_until_a_roll(pair: Pair):
    pair.alive = {"a", "b"}
    pair.fleet = a_pair(boxes=({"name": "a", "port": 8001},))
    assert pair.up().stands
    assert pair.lists[-1] == {"a": "http://127.0.0.1:8001", "b": "http://127.0.0.1:8002"}
    assert [box.name for box in pair.directory.fleet().boxes] == ["a", "b"], "what runs, not what was wished"


def test_a_policy_is_recorded_when_it_is_applied(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    here = store.create("pair-router")
    here.write(deployment("pair-router", pair.recipe(9000)))
    monkeypatch.setattr(starting, "running_router", lambda directory: here)
    here.key_file.write_text(pair.directory.keys().client)
    pair.alive = {"a", "b"}
    pair.fleet = a_pair(router={"policy": "round_robin"})
    assert pair.up().stands
    assert pair.directory.fleet().router.policy == "auto", "the router that runs was started with it"
    monkeypatch.setattr(starting, "running_router", lambda directory: None)
    assert pair.up().stands
    assert pair.directory.fleet().router.policy == "round_robin"


def test_a_box_that_was_stopped_elsewhere_is_begun_anew(pair: Pair, monkeypatch):
    """What was stopped stays on its machine; only there could it be started again."""
    seen: list[Any] = []
    monkeypatch.setattr(boxes, "start", lambda prepared, directory, **more: seen.append((directory.name, more["on"])))
    monkeypatch.setattr(boxes, "restart", lambda *_, **__: pytest.fail("on the old machine"))
    record = pair.recipe(8001)
    prepared: Any = SimpleNamespace(box=record, model=record, plan=record, recipe=record)
    fleet, known = a_pair(boxes=ELSEWHERE), pair.directory.state().box("a")
    with pytest.raises(LaunchError, match="no box of pair runs"):
        roll(fleet, Path("fleet.yaml"), tell=pair.said.append)
    made = boxes.start_box(fleet, fleet.boxes[0], prepared, known, pair.directory.keys(), print, lambda _: None)
    assert made.deployment not in (None, "pair-a")
    assert [(name, on.machine, on.port) for name, on in seen] == [(made.deployment, "far", 41000)]


@pytest.mark.parametrize("refused", [True, False])
def test_a_recipe_stays_beside_what_it_was_made_from(pair: Pair, monkeypatch, refused: bool):
    here, wanted = store.find("pair-a"), pair.recipe(8111)
    record = pair.fleet.model_copy(update={"drain_seconds": 5})
    prepared: Any = SimpleNamespace(box=record, model=record, plan=record, recipe=wanted)

    def restart(directory: DeploymentDir, recipe: Any, **_: Any) -> None:
        if not refused:
            directory.write(recipe)
        raise LaunchError("it is not up")

    monkeypatch.setattr(boxes, "restart", restart)
    box, known = pair.fleet.boxes[0], pair.directory.state().box("a")
    with pytest.raises(LaunchError, match="it is not up"):
        boxes.start_box(pair.fleet, box, prepared, known, pair.directory.keys(), print, lambda _: None)
    assert here.has(Fleet) is not refused

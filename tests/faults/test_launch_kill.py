"""`kill -9` of any of our processes at random moments: the state becomes true, nothing is left, it starts again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engines.test_line import left_running
from tests.engines.test_runtimes import containers
from tests.ports import free_port
from upright.base.errors import UprightError
from upright.base.host import LocalHost
from upright.facts import store
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.flows.line import LaunchTarget, prepare_model
from upright.proof.ladder.recipe_changes import running_trial_recipe, undo_interrupted
from upright.serving.launch import launch, restart, status, stop
from upright.serving.launch.launch import with_fields
from upright.serving.launch.processes import alive, identify, leader, members

pytestmark = pytest.mark.engine

SEED = 20261115
VICTIMS = (("supervisor",), ("engine",), ("supervisor", "engine"), ("launcher",))
TRUE_WITHIN_SECONDS = 20.0
"""On a machine that is busy with other tests; the seconds that it took are printed."""
LAUNCH = """
import sys
from pathlib import Path
from upright.serving.launch import launch
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.facts.records.base import from_json
launch(from_json(Recipe, Path(sys.argv[2]).read_bytes()), DeploymentDir(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def process_recipe(llama_server: Path, tiny_model: Path) -> Iterator[Recipe]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPRIGHT_LLAMA_SERVER", str(llama_server))
        yield prepared(tiny_model, LaunchTarget())


@pytest.fixture(scope="module")
def podman_recipe(llama_server: Path, tiny_model: Path, llama_image) -> Iterator[Recipe]:
    image, environment = llama_image
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPRIGHT_LLAMA_SERVER", str(llama_server))
        patch.setenv("CONTAINERS_CONF", environment["CONTAINERS_CONF"])
        yield prepared(tiny_model, LaunchTarget(runtime="podman", image=image))


def prepared(model: Path, on: LaunchTarget) -> Recipe:
    recipe = prepare_model(
        str(model), Goal(context_tokens=1024), LocalHost(), port=1, tell=lambda words: None, on=on
    ).recipe
    assert recipe is not None
    return recipe


def at_port(recipe: Recipe, port: int) -> Recipe:
    arguments = tuple(
        each.model_copy(update={"value": str(port)}) if each.name == "--port" else each for each in recipe.arguments
    )
    return recipe.model_copy(update={"port": port, "arguments": arguments})


@pytest.mark.parametrize("trial", range(2))
def test_two_moments_of_a_process(trial, process_recipe, tmp_path, monkeypatch):
    kill_and_recover(trial, process_recipe, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(2, 60))
def test_sixty_moments_of_a_process(trial, process_recipe, tmp_path, monkeypatch):
    kill_and_recover(trial, process_recipe, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(2))
def test_two_moments_of_a_container(trial, podman_recipe, tmp_path, monkeypatch):
    kill_and_recover(trial, podman_recipe, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(2, 14))
def test_twelve_moments_of_a_container(trial, podman_recipe, tmp_path, monkeypatch):
    kill_and_recover(trial, podman_recipe, tmp_path, monkeypatch)


def test_what_was_taken_down_does_not_rise_by_a_trial_that_goes_back(process_recipe, tmp_path, monkeypatch, upright):
    """A trial that is told to end starts the last good recipe again. Before, it did so too when `down` came between the
    end of one engine and the start of the other, and a deployment that was down rose half a minute later."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    directory, good = store.create("kill"), at_port(process_recipe, free_port())
    launch(good, directory)
    tried = good.model_copy(update={"arguments": (*good.arguments, Setting(name="--no-webui", value=None, reason="x"))})
    launching = sys.modules["upright.serving.launch.launch"]
    refuse, looks = launching.refuse_taken_port, list[int]()

    def down_meanwhile(base_url: str) -> None:
        if status(directory).state == "stopped":  # its engine has ended, and the other has not begun
            looks.append(upright("down", "kill", UPRIGHT_HOME=str(tmp_path / "home")).returncode)
        refuse(base_url)

    with suppress(UprightError), running_trial_recipe(directory, tried, "--no-webui", "to be tried"):
        restart(directory, tried)
        monkeypatch.setattr(launching, "refuse_taken_port", down_meanwhile)
        raise UprightError("it is told to end")
    assert looks == [0]
    assert status(directory).state == "stopped"
    undo_interrupted(directory, lambda words: None)
    assert (status(directory).state, directory.read(Recipe)) == ("stopped", good)
    assert running(directory, "engine") == []
    monkeypatch.setattr(launching, "refuse_taken_port", refuse)
    assert restart(directory).state == "ready", "a person's own restart brings it up"
    stop(directory)


def test_after_a_reboot_nothing_is_taken_for_ours(process_recipe, tmp_path, monkeypatch):
    """The same numbers, counted from another boot: they are strangers', and are left alone."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    directory = store.create("kill")
    finished(launcher(directory, at_port(process_recipe, free_port()), tmp_path))
    here = status(directory)
    assert here.state == "ready"
    assert here.supervisor is not None
    assert here.process is not None
    stop(directory)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as stranger:
        theirs = leader(stranger.pid).model_copy(update={"boot_id": "11111111-2222-3333-4444-555555555555"})
        directory.write(with_fields(here, state="ready", supervisor=theirs, process=theirs))
        after = status(directory)
        assert after.state == "failed"
        assert after.reason == "the machine was restarted, and its engine is gone"
        assert stranger.poll() is None
        stranger.kill()
    assert restart(directory).state == "ready"
    assert stop(directory).state == "stopped"


def kill_and_recover(trial: int, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    chance = random.Random(SEED + trial)
    victims, moment = (
        VICTIMS[trial % len(VICTIMS)],
        chance.choice((0.0, chance.uniform(0, 0.5), chance.uniform(0, 5))),
    )
    directory = store.create("kill")
    starting = launcher(directory, at_port(recipe, free_port()), tmp_path)
    if victims != ("launcher",) or chance.random() < 0.7:  # a launcher is there before a supervisor is
        until_there(directory)
    time.sleep(moment)
    killed = kill(directory, starting, victims)
    finished(starting)
    began = time.monotonic()
    seen = settled(directory, tmp_path)
    seconds = time.monotonic() - began
    print(f"trial {trial}: killed {killed or 'nobody yet'} after {moment:.2f} s; {seen} after {seconds:.1f} s")
    if directory.has(Deployment):
        assert restart(directory).state == "ready"
        assert stop(directory).state == "stopped"
    assert nothing_left(directory, tmp_path) == []


def until_there(directory: DeploymentDir) -> None:
    """The supervisor's first breath: moments are counted from it."""
    while not running(directory, "supervisor"):
        time.sleep(0.005)


def launcher(directory: DeploymentDir, recipe: Recipe, tmp_path: Path) -> subprocess.Popen[bytes]:
    file = tmp_path / "recipe.json"
    file.write_text(recipe.to_json())
    argv = [sys.executable, "-c", LAUNCH, str(directory.path), str(file)]
    return subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True)


def finished(starting: subprocess.Popen[bytes]) -> None:
    """It gives up by itself once its engine is gone."""
    starting.wait(60)


def kill(directory: DeploymentDir, starting: subprocess.Popen[bytes], victims: tuple[str, ...]) -> list[str]:
    """By what the process table says, which knows of them before any record does; [] if it was all over by then."""
    if victims == ("launcher",):
        starting.kill()
        return ["launcher"]
    deadline = time.monotonic() + TRUE_WITHIN_SECONDS
    while not (found := [pid for name in victims for pid in running(directory, name)]):
        assert time.monotonic() < deadline, "nothing came up that could be killed"
        time.sleep(0.005)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(identify(pid) for pid in found):  # on a busy machine it takes its time to die
        time.sleep(0.005)
    return [*victims]


def running(directory: DeploymentDir, name: str) -> list[int]:
    """The supervisor is told by its module, the engine by the key's file on its command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace")
            supervises = f"upright.serving.launch.supervisor\0{directory.path}\0" in words
            if supervises if name == "supervisor" else str(directory.key_file) in words:
                found.append(int(path.parent.name))
    return found


def settled(directory: DeploymentDir, tmp_path: Path) -> str:
    """Looks as the next command would, until what is on disk says how it is."""
    deadline = time.monotonic() + TRUE_WITHIN_SECONDS
    while True:
        try:
            now = status(directory)
        except UprightError:
            now = None  # killed before there was a record
        lie = untrue(now, directory, tmp_path)
        if lie is None and (now is None or now.state in ("planned", "ready", "failed", "stopped")):
            return now.state if now else "no deployment"
        assert time.monotonic() < deadline, f"{now.state if now else None}: {lie}"
        time.sleep(0.1)


def untrue(now: Deployment | None, directory: DeploymentDir, tmp_path: Path) -> str | None:
    if now is not None and now.state in RUNNING:
        return None if alive(now.supervisor) and (now.process is None or alive(now.process)) else "nobody keeps it"
    left = nothing_left(directory, tmp_path)
    if now is not None and now.process is not None:
        left += [str(pid) for pid in members(now.process)]
    return f"left behind: {left}" if left else None


def nothing_left(directory: DeploymentDir, tmp_path: Path) -> list[str]:
    """Neither a process that names this test's directory, nor a container that names this deployment."""
    names = containers({}, tmp_path / "home") if "CONTAINERS_CONF" in os.environ else []
    return [*left_running(tmp_path), *names]

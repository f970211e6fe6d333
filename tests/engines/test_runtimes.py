"""The real llama-server in a podman container, and on another machine over a real sshd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.command import command
from tests.conftest import Upright
from tests.engines.test_line import answer, last_line, left_running
from tests.ports import free_port
from upright.base.errors import EndpointError
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch.footprint import FootprintMeter
from upright.serving.launch.launch import container_name
from upright.serving.launch.processes import identify

pytestmark = pytest.mark.engine


@pytest.fixture
def box(upright: Upright, llama_server: Path, llama_image, ssh_command, tmp_path: Path) -> Iterator[Any]:
    """A user's machine with podman, and `ssh box`, which leads back to it with another home."""
    image, podman = llama_image
    environment = {
        **podman,
        "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
        "UPRIGHT_SSH_COMMAND": " ".join(ssh_command),
    }

    def run(*args: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return upright(*args, **{**environment, **more})

    run.environment = {**os.environ, **environment, "UPRIGHT_HOME": str(tmp_path / "home")}
    run.image = image
    yield run
    for item in json.loads(run("ps", "--json").stdout):
        run("down", item["name"])
    assert left_running(tmp_path) == []
    assert containers(podman, tmp_path / "home") == []


def containers(podman: dict[str, str], home: Path | None = None) -> list[str]:
    """Those of ours; with a home, those of its deployments alone."""
    argv = ["podman", "ps", "--all", "--filter", "label=upright.deployment", "--format", "{{.Names}}"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **podman}, check=True)
    if home is None:
        return done.stdout.split()
    own = {container_name(DeploymentDir(path.parent)) for path in home.glob("deployments/*/deployment.json")}
    return [name for name in done.stdout.split() if name in own]


def in_podman(box: Any) -> list[str]:
    return ["--runtime", "podman", "--image", box.image]


def ask(deployment: dict[str, Any], home: Path) -> str:
    key = (home / "deployments" / deployment["name"] / "key").read_text().strip()
    with Endpoint(deployment["base_url"], deployment["served_name"], key=key) as endpoint:
        return endpoint.chat([{"role": "user", "content": "Say OK."}], max_tokens=4).finish_reason or ""


def planted(home: Path, name: str = "tiny-kimi") -> str:
    return (home / "deployments" / name / "key").read_text().strip()


def refuse_key_anywhere(key: str, home: Path, *texts: str) -> None:
    """In no process listing, no file but the key's own, nothing that was printed."""
    listed = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            listed.append(path.read_bytes())
    assert not any(key.encode() in words for words in listed)
    files = [path for path in home.rglob("*") if path.is_file() and path.name not in ("key", "key.yaml")]
    assert [path.name for path in files if key in path.read_text(errors="replace")] == []
    assert not any(key in text for text in texts)


def holds_an_engine(box: Any, home: Path) -> bool:
    """What a soak reads of its memory: the engine's own processes, not the client that waits for them."""
    with mock.patch.dict(os.environ, box.environment):
        found = FootprintMeter(DeploymentDir(home / "deployments/tiny-kimi").read(Deployment)).read()
    return found is not None and 2**22 < found.engine_bytes < 2**28 and found.engine_seconds > 0


def test_a_life_in_a_container(box: Any, tiny_model: Path, tmp_path: Path):
    home, port = tmp_path / "home", str(free_port())
    up = box("run", tiny_model, "--context", "1k", "--port", port, *in_podman(box), "--to", "boot", "--keep", "--json")
    first = answer(up)["deployment"]
    assert (first["state"], first["runtime"], first["keeping"]["restarts"]) == ("ready", "podman", 2)
    assert containers(box.environment, tmp_path / "home") == [first["container"]]
    assert ask(first, home)
    assert holds_an_engine(box, home)
    inspected = subprocess.run(
        ["podman", "inspect", first["container"]], capture_output=True, text=True, env=box.environment, check=True
    ).stdout
    state = json.loads(inspected)[0]
    assert state["Config"]["Labels"]["upright.deployment"] == "tiny-kimi"
    assert state["HostConfig"]["ReadonlyRootfs"]
    assert not state["EffectiveCaps"]
    refuse_key_anywhere(planted(home), home, up.stdout, up.stderr, inspected)

    assert "listening on http://0.0.0.0" in box("logs").stdout
    followed = tmp_path / "followed"
    with followed.open("w") as out:
        argv = [*command(), "logs", "--follow"]
        follower = subprocess.Popen(argv, env=box.environment, stdout=out, stderr=subprocess.PIPE, text=True)
    while "listening on" not in followed.read_text():
        assert follower.poll() is None, follower.communicate()
        time.sleep(0.1)
    second = answer(box("restart", "--json"))
    assert containers(box.environment, tmp_path / "home") == [second["container"]]
    assert identify(first["process"]["pid"]) is None
    assert box("logs", "--previous").stdout.count("listening on") == 1
    down = answer(box("down", "--json"))
    assert (down["state"], down["reason"]) == ("stopped", "stopped on request")
    _, talk = follower.communicate(timeout=30)
    assert followed.read_text().count("listening on") == 2, "the log is followed over a restart"
    assert talk.endswith(f"next: upright diagnose {down['name']}\n")


@pytest.mark.slow
def test_a_container_whose_client_or_supervisor_was_killed_is_not_left(box: Any, tiny_model: Path, tmp_path: Path):
    options = ("--context", "1k", *in_podman(box), "--restarts", "0", "--json")
    first = answer(box("up", tiny_model, "--port", str(free_port()), *options))
    os.kill(first["process"]["pid"], signal.SIGKILL)  # podman's client: its container knows nothing of it
    wait_for(box, "tiny-kimi", "failed")
    assert containers(box.environment, tmp_path / "home") == []
    second = answer(box("up", tiny_model, "--port", str(free_port()), *options))
    os.kill(second["supervisor"]["pid"], signal.SIGKILL)
    state = wait_for(box, "tiny-kimi-2", "failed")
    assert state["reason"] == "its supervisor is gone and left no reason; its engine was ended too"
    assert containers(box.environment, tmp_path / "home") == []


def test_an_image_that_is_nowhere(box: Any, tiny_model: Path):
    options = ("--context", "1k", "--port", str(free_port()), "--runtime", "podman")
    missing = box("up", tiny_model, *options, "--image", "localhost/upright-no-such-image:1")
    assert missing.returncode == 2
    assert "pulling: localhost/upright-no-such-image:1 is not here yet" in missing.stderr
    assert "localhost/upright-no-such-image:1 could not be pulled: initializing source " in missing.stderr


def test_a_life_on_another_machine(box: Any, tiny_model: Path, tmp_path: Path):
    home, port, there = tmp_path / "home", free_port(), free_port()
    where = ("--host", "ssh:box", "--port", str(port), "--remote-port", str(there))
    up = box("up", tiny_model, "--context", "1k", *where, "--json")
    first = answer(up)
    assert (first["state"], first["machine"]) == ("ready", "box")
    assert first["base_url"] == f"http://127.0.0.1:{port}"
    assert ask(first, home)
    assert holds_an_engine(box, home)
    refuse_key_anywhere(planted(home), home, up.stdout, up.stderr)
    assert "listening on" in box("logs").stdout

    second = answer(box("restart", "--json"))
    assert identify(first["process"]["pid"]) is None
    assert ask(second, home)
    assert box("logs", "--previous").stdout.count("listening on") == 1
    down = answer(box("down", "--json"))
    assert (down["state"], down["exit_code"]) == ("stopped", 0)
    assert identify(second["process"]["pid"]) is None
    assert "cleaning up before exit" in box("logs").stdout, "the last lines came too"


@pytest.mark.slow
def test_another_machines_engine_outlives_connections_and_supervisors(box: Any, tiny_model: Path, tmp_path: Path):
    home = tmp_path / "home"
    where = ("--host", "ssh:box", "--port", str(free_port()), "--remote-port", str(free_port()))
    first = answer(box("up", tiny_model, "--context", "1k", *where, "--json"))
    for child in children(first["supervisor"]["pid"]):  # the tunnel, and whoever brings the log
        os.kill(child, signal.SIGKILL)
    until(lambda: ask(first, home), "the tunnel came back")

    os.kill(first["supervisor"]["pid"], signal.SIGKILL)
    assert identify(first["process"]["pid"]) is not None, "it does not die with a supervisor elsewhere"
    found = answer(box("ps", "--json"))[0]
    assert found["supervisor"] != first["supervisor"]
    assert found["process"] == first["process"]
    until(lambda: ask(first, home), "the new supervisor opened a tunnel")
    state = wait_for(box, "tiny-kimi", "ready")
    assert state["process"] == first["process"]

    os.killpg(first["process"]["pid"], signal.SIGKILL)
    again = until(lambda: ready_with_another(box, first["process"]), "it was started again")
    assert again["restarts"] == 1
    assert answer(box("down", "--json"))["state"] == "stopped"


@pytest.mark.slow
def test_a_container_on_another_machine(box: Any, tiny_model: Path, tmp_path: Path):
    where = ("--host", "ssh:box", "--port", str(free_port()), "--remote-port", str(free_port()))
    first = answer(box("up", tiny_model, "--context", "1k", *where, *in_podman(box), "--json"))
    assert (first["runtime"], first["machine"]) == ("podman", "box")
    assert containers(box.environment, tmp_path / "home") == [first["container"]]
    assert holds_an_engine(box, tmp_path / "home")
    os.kill(first["supervisor"]["pid"], signal.SIGKILL)
    taken_up = wait_for(box, "tiny-kimi", "ready")
    assert taken_up["process"] == first["process"]
    until(lambda: ask(first, tmp_path / "home"), "the new supervisor opened a tunnel")
    assert answer(box("down", "--json"))["state"] == "stopped"
    assert containers(box.environment, tmp_path / "home") == []


@pytest.mark.slow
def test_a_machine_out_of_reach_is_waited_for(box: Any, tiny_model: Path, tmp_path: Path, ssh_command: list[str]):
    """An ssh that fails while a file is there stands for a network that is down."""
    down = tmp_path / "network-is-down"
    ssh = tmp_path / "ssh"
    words = " ".join(ssh_command)
    ssh.write_text(f'#!/bin/sh\n[ -e {down} ] && {{ echo "No route to host" >&2; exit 255; }}\nexec {words} "$@"\n')
    ssh.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="u-") as short:  # a socket's path is at most 107 bytes
        over = {"UPRIGHT_SSH_COMMAND": str(ssh), "TMPDIR": short}
        where = ("--host", "ssh:box", "--port", str(free_port()), "--remote-port", str(free_port()))
        first = answer(box("up", tiny_model, "--context", "1k", *where, "--json", **over))

        def cut() -> dict[str, Any]:
            down.touch()
            for pid in [*children(first["supervisor"]["pid"]), *connections(short)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return wait_for(box, "tiny-kimi", "degraded")

        assert "No route to host; trying again" in cut()["reason"]
        assert identify(first["process"]["pid"]) is not None
        down.unlink()
        assert wait_for(box, "tiny-kimi", "ready")["process"] == first["process"]
        assert ask(first, tmp_path / "home")

        cut()
        stopped = answer(box("down", "--json", **over))
        assert stopped["state"] == "failed"
        assert "could not be ended" in stopped["reason"]
        assert box("down", **over).returncode == 2, "still out of reach"
        down.unlink()
        assert box("down", **over).returncode == 0
        assert identify(first["process"]["pid"]) is None


def connections(folder: str) -> list[int]:
    """Shared connections whose socket is in that folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{folder}/upright-ssh-".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    ("host", "says"),
    [("ssh:nobody", "cannot reach nobody: "), ("ssh:", "ssh: is no machine"), ("nobody", "nobody is no machine")],
)
def test_a_machine_that_is_not_there(box: Any, tiny_model: Path, host: str, says: str):
    done = box("up", tiny_model, "--context", "1k", "--host", host)
    assert done.returncode == 2
    assert f"error: {says}" in done.stderr
    assert "hint:  " in done.stderr
    assert answer(box("ps", "--json")) == []


@pytest.mark.slow
def test_weights_that_the_other_machine_has_not(box: Any, tiny_model: Path):
    done = box("up", tiny_model, "--context", "1k", "--host", "ssh:box", "--model-path", "/no/such/model.gguf")
    assert done.returncode == 2
    assert "error: box has no /no/such/model.gguf" in done.stderr


def test_a_recipe_and_a_plan_can_be_started(box: Any, tiny_model: Path, tmp_path: Path):
    recipe = tmp_path / "recipe.yaml"
    assert (
        box("up", tiny_model, "--context", "1k", "--port", str(free_port()), "--dry-run", "-o", recipe).returncode == 0
    )
    recipe.write_text(
        recipe.read_text()
        .replace("served_name: tiny-kimi", "served_name: mine")
        .replace("value: tiny-kimi\n", "value: mine\n")
    )
    up = box("up", recipe, "--json")
    assert answer(up)["served_name"] == "mine"
    assert last_line(up) == "next: upright prove tiny-kimi"
    assert box("store", "check").returncode == 0
    assert answer(box("down", "--json"))["state"] == "stopped"


def wait_for(box: Any, name: str, state: str, seconds: float = 40) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        listed = {item["name"]: item for item in answer(box("ps", "--json"))}
        return listed[name] if listed[name]["state"] == state else None

    return until(found, f"{name} is {state}", seconds)


def ready_with_another(box: Any, process: dict[str, Any]) -> dict[str, Any] | None:
    item = answer(box("ps", "--json"))[0]
    return item if item["state"] == "ready" and item["process"] not in (process, None) else None


def until(question: Any, what: str, seconds: float = 40) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(EndpointError):
            if found := question():
                return found
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.3)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

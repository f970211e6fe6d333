"""Four real engines behind a real router, in a real Prometheus and a real terminal; and one of them killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.command import command
from tests.ports import free_port
from tests.prometheus import Prometheus, empty, panels, watching

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]
BOXES = ("a", "b", "c", "d")
FLEET = """\
record: fleet
schema: 1
name: tiny
model: tiny-kimi.gguf
goal: {{context_tokens: 2048}}
router: {{port: {0}, metrics_port: {1}}}
boxes:
"""


@dataclass(frozen=True)
class Standing:
    """A fleet that is up, and how to speak to it."""

    folder: Path
    environment: dict[str, str]
    router: int
    engines: tuple[int, ...]

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*args), capture_output=True, text=True, env=self.environment, cwd=self.folder, check=False
        )

    def words(self, *args: str) -> list[str]:
        return [*command(), *args]

    def answer(self, *args: str) -> Any:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def key(self, name: str) -> str:
        return (self.folder / f"home/fleets/tiny/{name}.key").read_text().strip()


@pytest.fixture(scope="module")
def standing(
    llama_server: Path, smg: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standing]:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "tiny-kimi.gguf").symlink_to(tiny_model)
    router, metrics, *engines = (free_port() for _ in range(2 + len(BOXES)))
    boxes = "".join(f"  - {{name: {name}, port: {port}}}\n" for name, port in zip(BOXES, engines, strict=True))
    (folder / "fleet.yaml").write_text(FLEET.format(router, metrics) + boxes)
    path = f"{llama_server.parent}:{smg.parent}:{os.environ['PATH']}"
    ours = {"UPRIGHT_HOME": str(folder / "home"), "PATH": path}
    fleet = Standing(folder, {**os.environ, **ours}, router, tuple(engines))
    done = fleet.run("fleet", "up")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        yield fleet
    finally:
        fleet.run("fleet", "down")


@pytest.fixture
def asked(standing: Standing) -> Iterator[None]:
    """Short questions with the same beginning, at each engine and through the router, until the test ends."""
    stop = threading.Event()
    body = {"model": "tiny-kimi", "max_tokens": 24, "messages": [{"role": "user", "content": "Say OK."}]}
    doors = {standing.router: "client"} | dict.fromkeys(standing.engines, "worker")

    def ask(port: int) -> None:
        headers = {"Authorization": f"Bearer {standing.key(doors[port])}", "Connection": "close"}
        with httpx2.Client(trust_env=False, headers=headers) as client:
            while not stop.wait(0.3):
                client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, timeout=60)

    threads = [threading.Thread(target=ask, args=(port,)) for port in doors]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join(60)


def test_every_panel_has_data(standing: Standing, asked: None, tmp_path: Path) -> None:
    written = standing.run("monitor", "--fleet", "tiny", "--every", "1s", "-o", str(tmp_path))
    assert written.returncode == 0, written.stderr
    assert "promtool accepts the configuration and the rules" in written.stderr
    assert "llama.cpp b11669  tiny-a at " in written.stdout
    keys = [standing.key(name) for name in ("client", "worker", "admin")]
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or not any(key in file.read_text() for key in keys), f"{file} holds a key"
    with watching(tmp_path) as prometheus:
        assert len(panels(tmp_path)) >= 20
        prometheus.wait(lambda: not empty(prometheus, tmp_path), "data for every panel")
        software = {("llama.cpp", f"tiny-{box}") for box in BOXES}
        prometheus.wait(lambda: _answering(prometheus) == software, "a speed of every engine")
        errors = 'upright:error_ratio{software="smg"}'
        prometheus.wait(lambda: prometheus.values(errors) == [0.0], "a router without errors")
        assert not {"UprightDown", "UprightStuck", "UprightErrors"} & set(prometheus.firing())


def _answering(prometheus: Prometheus) -> set[tuple[str, str]]:
    """A rate wants two readings, and one engine may have its second before another."""
    every = prometheus.ask("query", query="upright:generation_tokens_per_second")["result"]
    return {(each["metric"]["software"], each["metric"]["deployment"]) for each in every}


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), pytest.param(200, 50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", [("tiny-a",), ("tiny-a", "tiny-b", "tiny-c", "tiny-d")], ids=["one", "four"])
def test_top_in_a_terminal(standing: Standing, asked: None, names: tuple[str, ...], columns: int, lines: int) -> None:
    with _terminal(standing, columns, lines, "top", *names, "--every", "0.5s") as shown:
        whole = rf"(?s)upright tools top  {len(names)} deployment.*█.*█.*█.*\nevery 500 ms · q leaves[^\n]*"
        text = shown.wait(lambda text: re.fullmatch(whole, text), "a picture of the last seconds").string.splitlines()
        assert len(text) <= lines
        assert max(map(len, text)) <= columns
        for name in names:
            (row,) = [line for line in text if re.match(rf"{name}\b", line)]
            assert row.split()[1] == "ready"
            assert ("llama.cpp b11669, tiny-kimi, http://127.0.0.1:" in row) is (columns == 200)
        shown.resize(columns - 10, lines - 4)
        shown.wait(lambda text: len(text.split("\n")[0]) == columns - 10, "the other size")
        shown.press("q")
        shown.wait(lambda text: "next: upright ps" in text, "the person's own screen")


def test_a_killed_engine_alerts_and_is_shown_dead(standing: Standing, tmp_path: Path) -> None:
    assert (
        standing.run("monitor", "--fleet", "tiny", "--every", "1s", "--patience", "2s", "-o", str(tmp_path)).returncode
        == 0
    )
    with watching(tmp_path) as prometheus:
        prometheus.wait(lambda: prometheus.values('up{deployment="tiny-d"}') == [1.0], "its first reading")
        (deployment,) = [each for each in standing.answer("ps") if each["name"] == "tiny-d"]
        os.kill(deployment["supervisor"]["pid"], signal.SIGKILL)  # its engine dies with it, and nobody restarts it
        with _terminal(standing, 80, 24, "top", "--every", "0.5s") as shown:
            shown.wait(lambda text: "next: upright diagnose tiny-d" in text, "what to do")
            dead = re.compile(
                r"^tiny-d +failed +—.*\n  its supervisor is gone and left no reason; its engine was ended too$",
                re.MULTILINE,
            )
            others = re.compile(r"^tiny-a +ready +\d", re.MULTILINE)
            shown.wait(
                lambda text: dead.search(text) and others.search(text), "why it is not, and the others as before"
            )
        alert = prometheus.wait(lambda: prometheus.firing().get("UprightDown"), "the alert")
    assert alert["labels"]["deployment"] == "tiny-d"
    assert alert["annotations"]["next"] == "upright ps, then upright diagnose tiny-d"
    rows = {row["name"]: row for row in standing.answer("top")}
    assert (rows["tiny-d"]["state"], rows["tiny-d"]["next"]) == ("failed", "upright diagnose tiny-d")
    assert (rows["tiny-a"]["state"], rows["tiny-a"]["next"]) == ("ready", None)


class _terminal:  # noqa: N801
    """A tmux of its own that runs one command of upright."""

    def __init__(self, standing: Standing, columns: int, lines: int, *args: str) -> None:
        self._socket = f"upright-{os.getpid()}-{time.monotonic_ns()}"
        size = ["-x", str(columns), "-y", str(lines)]
        self._command = ["new-session", "-d", *size, f"{shlex.join(standing.words(*args))}; sleep 60"]
        # A size in the environment is of another terminal, or of this one before it was resized.
        other = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "COLUMNS": "80", "LINES": "24"}
        self._environment = {**standing.environment, **other}

    def __enter__(self) -> _terminal:
        self._tmux(*self._command)
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def text(self) -> str:
        return self._tmux("capture-pane", "-p").rstrip("\n")

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def wait(self, fact: Callable[[str], Any], what: str) -> Any:
        """What the fact says of the first picture that has it: the next look may see one that is half drawn."""
        deadline = time.monotonic() + 60
        while not (found := fact(text := self.text())):
            assert time.monotonic() < deadline, f"{what} did not come:\n{text}"
            time.sleep(0.2)
        return found

    def _tmux(self, *args: str) -> str:
        words = ["tmux", "-f", "/dev/null", "-L", self._socket, *args]
        return subprocess.run(words, capture_output=True, text=True, env=self._environment, check=True).stdout

"""The whole line as a user walks it: subprocesses, the real llama-server, the tiny trained model."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.conftest import Upright
from tests.ports import free_port
from upright.serving.launch.processes import identify

pytestmark = pytest.mark.engine


@pytest.fixture
def box(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path) -> Iterator[Upright]:
    """A user's machine: llama-server on the PATH, a home of its own; at the end nothing may be left running."""
    environment = {"PATH": f"{llama_server.parent}:{os.environ['PATH']}"}

    def run(*args: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return upright(*args, **environment, **more)

    yield run
    for _ in json.loads(run("ps", "--json").stdout):
        run("down")
    assert left_running(tmp_path) == []


def left_running(home: Path) -> list[str]:
    """Processes whose command line names this test's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home) in words and "upright ps" not in words and int(path.parent.name) != os.getpid():
            found.append(words)
    return found


def connected_to(port: int) -> bool:
    """Whether somebody on this machine has a connection to that port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(int(row[2].rpartition(":")[2], 16) == port and row[3] == "01" for row in rows)


def answer(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().splitlines()[-1]


def test_every_verb_of_the_line(box: Upright, tiny_model: Path, tmp_path: Path):
    port = str(free_port())
    assert answer(box("probe", "--json"))["engines"][0]["engine"] == "llama.cpp"
    model = answer(box("read", tiny_model, "--json"))
    assert model["architecture"]["attention"][0]["kind"] == "mla"
    plan = answer(box("plan", tiny_model, "--context", "2k", "--json"))
    assert plan["fits"]
    recipe = answer(box("render", tiny_model, "--context", "2k", "--port", port, "--json"))
    assert recipe["context_tokens"] == 2048

    up = box("up", tiny_model, "--context", "2k", "--port", port, "--json")
    deployment = answer(up)
    assert deployment["state"] == "ready"
    assert deployment["ready_seconds"] > 0
    assert last_line(up) == "next: upright prove tiny-kimi"

    assert [item["state"] for item in answer(box("ps", "--json"))] == ["ready"]
    assert "listening on" in box("logs").stdout
    evidence = answer(box("prove", "--to", "smoke", "--json"))
    wrong = {item["check"] for item in evidence["observations"] if item["verdict"] != "passed"}
    assert wrong <= {"json_schema"}, "llama.cpp ignores it with a Kimi template: unsupported, not failed"
    smoke = [item["check"] for item in evidence["observations"] if item["rung"] == "smoke"]
    assert set(smoke) >= {"language", "arithmetic", "code", "json"}
    settings = answer(box("connect", "--json"))
    assert settings["base_url"] == f"http://127.0.0.1:{port}/v1"
    page = tmp_path / "page.html"
    assert answer(box("report", "-o", page, "--json"))["page"] == str(page)
    assert "It stands" in page.read_text()
    down = answer(box("down", "--json"))
    assert down["state"] == "stopped"
    assert [step["state"] for step in down["history"]][-2:] == ["ready", "stopped"]

    key = Path(settings["key_file"]).read_text().strip()
    spoken = [page.read_text(), box("logs").stdout, *map(str, (up, evidence, settings, down))]
    assert all(key not in text for text in spoken)
    others = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and path.name != "key"]
    assert all(key not in path.read_text(errors="replace") for path in others)


def test_run_is_all_of_it(box: Upright, tiny_model: Path):
    port = str(free_port())
    done = box("run", tiny_model, "--context", "2k", "--port", port, "--json")
    outcome = answer(done)
    assert outcome["stands"]
    assert outcome["deployment"]["state"] == "stopped"
    assert Path(outcome["page"]).exists()
    assert last_line(done) == f"next: upright up {tiny_model} --context 2048 --port {port}"


def test_the_key_is_not_in_the_process_list(box: Upright, tiny_model: Path, tmp_path: Path):
    answer(box("up", tiny_model, "--context", "1k", "--port", str(free_port()), "--json"))
    key = Path(answer(box("connect", "--json"))["key_file"]).read_text().strip()
    everyone = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"llama-server" in words for words in everyone)
    assert not any(key.encode() in words for words in everyone)


def test_a_model_that_does_not_fit_is_an_answer_not_an_error(box: Upright, tiny_model: Path):
    done = box("run", tiny_model, "--context", "900m", "--port", str(free_port()), "--json")
    plan = answer(done, code=1)
    assert plan["objections"]
    assert answer(box("ps", "--json")) == []


def test_a_broken_model_file(box: Upright, tiny_model: Path, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_model.read_bytes()[:600_000])
    for verb in ("read", "plan", "up", "run"):
        done = box(verb, broken)
        assert done.returncode == 2, verb
        assert done.stderr.splitlines()[-2].startswith("error: "), done.stderr
        assert "broken.gguf" in done.stderr
        assert "Traceback" not in done.stderr
    assert answer(box("ps", "--json")) == []


def test_an_engine_that_refuses_the_file(box: Upright, tiny_model: Path, tmp_path: Path):
    """The header reads well and the sizes add up, but the engine does not know the architecture."""
    content = tiny_model.read_bytes()
    assert content.count(b"deepseek2") > 10
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(content.replace(b"kimi-k2", b"kimi-xx", 1))  # the tokenizer's name
    done = box("up", odd, "--context", "1k", "--port", str(free_port()))
    assert done.returncode == 2
    assert "did not come up: llama.cpp ended with code 1" in done.stderr
    assert "hint:  upright diagnose" in done.stderr
    assert [item["state"] for item in answer(box("ps", "--json"))] == ["failed"]


def test_a_taken_port(box: Upright, tiny_model: Path, tmp_path: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = box("up", tiny_model, "--context", "1k", "--port", str(port))
    assert done.returncode == 2
    assert f"error: port {port} on 127.0.0.1 cannot be had: Address already in use" in done.stderr
    assert "--port" in done.stderr
    assert left_running(tmp_path) == []


@pytest.mark.slow
def test_an_engine_killed_while_serving(box: Upright, tiny_model: Path):
    deployment = answer(
        box("up", tiny_model, "--context", "1k", "--port", str(free_port()), "--restarts", "0", "--json")
    )
    os.kill(deployment["process"]["pid"], signal.SIGKILL)
    state = wait_for_state(box, "failed")
    assert state["exit_code"] == -signal.SIGKILL
    assert state["reason"] == "llama.cpp was killed by SIGKILL"
    done = box("prove")
    assert done.returncode == 2
    assert "tiny-kimi is failed: llama.cpp was killed by SIGKILL" in done.stderr
    assert "hint:  upright diagnose tiny-kimi" in done.stderr
    assert box("connect").returncode == 2
    assert box("down").returncode == 0


@pytest.mark.slow
def test_an_engine_that_dies_is_started_again_but_not_for_ever(box: Upright, tiny_model: Path, tmp_path: Path):
    port = str(free_port())
    first = answer(box("up", tiny_model, "--context", "1k", "--port", port, "--restarts", "1", "--json"))
    os.kill(first["process"]["pid"], signal.SIGKILL)
    second = first
    while second["process"] in (first["process"], None) or second["state"] != "ready":
        second = answer(box("ps", "--json"))[0]
        assert second["state"] != "failed"
    assert second["restarts"] == 1
    why = [step["reason"] for step in second["history"] if step["reason"]]
    assert why == ["llama.cpp was killed by SIGKILL; starts again in 1 s (1 of 1)"]
    assert (tmp_path / "home/deployments/tiny-kimi/engine-1.log").read_text(), "each start has a log of its own"
    os.kill(second["process"]["pid"], signal.SIGKILL)
    state = wait_for_state(box, "failed")
    assert state["reason"] == "llama.cpp was killed by SIGKILL (after 1 restarts)"
    assert answer(box("restart", "--json"))["restarts"] == 0


@pytest.mark.slow
def test_an_engine_that_stands_still_is_started_again_and_named(box: Upright, tiny_model: Path, tmp_path: Path):
    first = answer(
        box(
            "up",
            tiny_model,
            "--context",
            "1k",
            "--port",
            str(free_port()),
            "--restarts",
            "1",
            "--hung-after",
            "2",
            "--json",
        )
    )
    os.kill(first["process"]["pid"], signal.SIGSTOP)
    deadline = time.monotonic() + 120
    while (now := answer(box("ps", "--json"))[0])["restarts"] == 0 or now["state"] != "ready":
        assert time.monotonic() < deadline, now["history"]
        time.sleep(0.2)
    why = " ".join(step["reason"] or "" for step in now["history"])
    assert "it hung: a question was not answered for 2 s" in why
    assert re.search(rf"process {first['process']['pid']} \(\S+\) is stopped by a signal \(SIGSTOP\)", why)
    stacks = (tmp_path / "home/deployments/tiny-kimi/stacks.txt").read_text()
    assert f"# process {first['process']['pid']} (" in stacks
    assert json.loads(box("diagnose", "tiny-kimi", "--previous", "--json").stdout)["code"] == "hung-stopped"


def test_an_engine_killed_during_the_proof_fails_the_rung(box: Upright, tiny_model: Path, tmp_path: Path):
    port = free_port()
    deployment = answer(box("up", tiny_model, "--context", "1k", "--port", str(port), "--restarts", "0", "--json"))
    engine = deployment["process"]["pid"]
    os.kill(engine, signal.SIGSTOP)  # the proof now waits for its first answer
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home")}
    proof = subprocess.Popen([*command(), "prove", "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    while not connected_to(port):
        assert proof.poll() is None
        time.sleep(0.05)
    os.kill(engine, signal.SIGKILL)
    evidence = json.loads(proof.communicate(timeout=30)[0])
    assert proof.returncode == 1
    last = evidence["observations"][-1]
    assert (last["rung"], last["verdict"]) == ("boot", "failed")
    assert "cannot be reached" in last["reason"]
    assert "smoke" not in {item["rung"] for item in evidence["observations"]}, "nobody was left to ask"


def test_a_supervisor_killed_takes_its_engine_along(box: Upright, tiny_model: Path):
    deployment = answer(box("up", tiny_model, "--context", "1k", "--port", str(free_port()), "--json"))
    os.kill(deployment["supervisor"]["pid"], signal.SIGKILL)
    state = wait_for_state(box, "failed")
    assert state["reason"] == "its supervisor is gone and left no reason; its engine was ended too"
    assert identify(deployment["process"]["pid"]) is None


def test_restart_with_the_same_recipe_and_with_another(box: Upright, tiny_model: Path, tmp_path: Path):
    port = free_port()
    first = answer(box("up", tiny_model, "--context", "1k", "--port", str(port), "--json"))
    again = answer(box("restart", "--json"))
    assert again["state"] == "ready"
    assert again["process"] != first["process"]
    assert identify(first["process"]["pid"]) is None
    lived = [step["state"] for step in again["history"]]
    assert lived[lived.index("stopped") :][:3] == ["stopped", "planned", "starting"]
    assert lived[-1] == "ready"

    folder = tmp_path / "home/deployments/tiny-kimi"
    old = (folder / "recipe.json").read_text()
    other = tmp_path / "other.yaml"
    settings = json.loads(old)
    settings = {**settings, "port": free_port(), "arguments": [dict(each) for each in settings["arguments"]]}
    for each in settings["arguments"]:
        if each["name"] == "--port":
            each["value"] = str(settings["port"])
    other.write_text(json.dumps({name: value for name, value in settings.items() if name != "digest"}))
    shown = answer(box("restart", "--recipe", other, "--dry-run", "--json"))
    assert shown["port"] == settings["port"]
    assert [item["state"] for item in answer(box("ps", "--json"))] == ["ready"], "a dry run stops nothing"
    moved = answer(box("restart", "--recipe", other, "--json"))
    assert moved["base_url"] == f"http://127.0.0.1:{settings['port']}"
    assert (folder / "recipe-1.json").read_text() == old
    assert moved["made_from"] == [f"recipe:{json.loads((folder / 'recipe.json').read_text())['digest']}"]
    assert box("store", "check").returncode == 0


def test_the_engine_outlives_the_terminal(box: Upright, tiny_model: Path, llama_server: Path, tmp_path: Path):
    """`up` in a real terminal that is then closed."""
    tmux = shutil.which("tmux")
    assert tmux, "tmux is installed by .ci/run"
    port, server = free_port(), ["-S", str(tmp_path / "tmux")]
    environment = {
        **os.environ,
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
    }
    line = [sys.executable, "-m", "upright", "up", str(tiny_model), "--context", "1k", "--port", str(port)]
    subprocess.run([tmux, *server, "new-session", "-d", *line], env=environment, check=True)
    wait_for_state(box, "ready")
    subprocess.run([tmux, *server, "kill-server"], check=False, capture_output=True)
    time.sleep(0.5)
    assert answer(box("prove", "--json"))["observations"]


def wait_for_state(box: Upright, state: str, seconds: float = 60, name: str = "tiny-kimi") -> Any:
    deadline = time.monotonic() + seconds
    while True:
        listed = {item["name"]: item for item in answer(box("ps", "--json"))}
        if name in listed and listed[name]["state"] == state:
            return listed[name]
        assert time.monotonic() < deadline, listed
        time.sleep(0.2)


def test_a_model_that_answers_garbage_does_not_stand(box: Upright, tiny_model: Path, tmp_path: Path):
    """The same file with noise in its weights: the engine is healthy, every reply is HTTP 200, and it is all wrong."""
    content = bytearray(tiny_model.read_bytes())
    noise = random.Random(0)
    for position in range(len(content) - 700_000, len(content)):
        content[position] ^= noise.randrange(256) & 0x55
    broken = tmp_path / "garbage.gguf"
    broken.write_bytes(content)
    done = box("run", broken, "--context", "1k", "--port", str(free_port()), "--json")
    outcome = answer(done, code=1)
    assert outcome["stands"] is False
    assert outcome["deployment"]["state"] == "stopped"
    assert "failed" in {item["verdict"] for item in outcome["evidence"]["observations"]}
    assert "It does not stand" in Path(outcome["page"]).read_text()


def test_ctrl_c_detaches_from_up_and_ends_run(box: Upright, tiny_model: Path, llama_server: Path, tmp_path: Path):
    """The engine is a slow one: a wrapper that waits for a file before it starts the real one."""
    slow, go = tmp_path / "slow" / "llama-server", tmp_path / "go"
    slow.parent.mkdir()
    waits = f'case "$*" in *--model*) until [ -e "{go}" ]; do sleep 0.1; done;; esac'
    slow.write_text(f'#!/bin/sh\n{waits}\nexec "{llama_server}" "$@"\n')
    slow.chmod(0o755)
    environment = {
        **os.environ,
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "PATH": f"{slow.parent}:{os.environ['PATH']}",
    }
    for verb, code, after in (("up", 0, "ready"), ("run", 130, "stopped")):
        argv = [*command(), verb, str(tiny_model), "--context", "1k", "--port", str(free_port())]
        go.unlink(missing_ok=True)
        process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
        wait_for_state(box, "loading", name="tiny-kimi" if verb == "up" else "tiny-kimi-2")
        process.send_signal(signal.SIGINT)
        talk = process.communicate(timeout=60)[1]
        assert process.returncode == code, talk
        assert ("detached" in talk) is (verb == "up")
        go.touch()
        wait_for_state(box, after, name="tiny-kimi" if verb == "up" else "tiny-kimi-2")
    assert box("down", "tiny-kimi").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("health_seconds", [0, 1.2], ids=["in the question", "just before it"])
def test_down_while_the_first_question_is_not_answered(
    box: Upright, tiny_model: Path, tmp_path: Path, health_seconds: float
):
    """An engine that says it is healthy and never answers: a stop is heard at once and is a stop, not a failure."""
    mute = tmp_path / "mute" / "llama-server"
    mute.parent.mkdir()
    mute.write_text(
        f"#!{sys.executable}\n"
        "import http.server, sys, time\n"
        "if '--version' in sys.argv: sys.exit('version: 11669 (mute)')\n"
        "if '--help' in sys.argv: sys.exit('usage: mute')\n"
        "class Mute(http.server.BaseHTTPRequestHandler):\n"
        f"    def do_GET(self): time.sleep({health_seconds}); self.send_response(200); self.end_headers()\n"
        "    def do_POST(self): time.sleep(600)\n"
        "port = int(sys.argv[sys.argv.index('--port') + 1])\n"
        "http.server.ThreadingHTTPServer(('127.0.0.1', port), Mute).serve_forever()\n"
    )
    mute.chmod(0o755)
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "UPRIGHT_LLAMA_SERVER": str(mute)}
    port = free_port()
    argv = [*command(), "up", str(tiny_model), "--context", "1k", "--port", str(port)]
    waiting = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    while not connected_to(port):
        assert waiting.poll() is None, waiting.communicate()
        time.sleep(0.05)
    time.sleep(0.5)
    began = time.monotonic()
    state = answer(box("down", "--json"))
    assert (state["state"], state["reason"]) == ("stopped", "stopped on request")
    assert time.monotonic() - began < 60, "it does not wait for an answer that takes 600 s"
    waiting.communicate(timeout=20)
    assert waiting.returncode == 2


def test_verbs_without_a_name_take_the_deployment_that_runs(box: Upright, tiny_model: Path):
    first, second = free_port(), free_port()
    answer(box("up", tiny_model, "--context", "1k", "--port", str(first), "--json"))
    later = answer(box("up", tiny_model, "--context", "1k", "--port", str(second), "--restarts", "0", "--json"))
    taken = box("up", tiny_model, "--context", "1k", "--port", str(first))
    assert taken.returncode == 2
    os.kill(later["process"]["pid"], signal.SIGKILL)
    wait_for_state(box, "failed", name="tiny-kimi-2")
    assert answer(box("connect", "--json"))["base_url"] == f"http://127.0.0.1:{first}/v1"
    assert answer(box("down", "--json"))["name"] == "tiny-kimi"
    assert [item["name"] for item in answer(box("ps", "--json"))] == ["tiny-kimi", "tiny-kimi-2"], (
        "no ghost of a refusal"
    )

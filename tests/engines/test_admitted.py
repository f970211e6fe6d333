"""The loop: a stranger's bench on a real engine, sent by real git to a real git server, admitted, and planned with.

The project is a copy of this one behind `git daemon` on loopback; its keeper clones it and runs scripts/admit there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.ports import free_port
from upright.planning.speed.speed_band import WIDEST

pytestmark = [pytest.mark.engine, pytest.mark.timing, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
WHO = {
    f"GIT_{role}_{what}": text
    for role in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "Ada"), ("EMAIL", "ada@lab.invalid"))
}
ONE_THREAD = {"LLAMA_ARG_THREADS": "1", "LLAMA_ARG_THREADS_BATCH": "1"}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ("git", *words), cwd=folder, env={**os.environ, **WHO}, capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout


def until_it_listens(port: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("git daemon does not listen")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The project behind a git server, with nothing admitted."""
    project, served, port = tmp_path / "project", tmp_path / "served", free_port()
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=as it is")
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(served / "upright.git"))
    words = ("--export-all", "--enable=receive-pack", "--listen=127.0.0.1", f"--port={port}", f"--base-path={served}")
    core = subprocess.run(("git", "--exec-path"), capture_output=True, encoding="utf-8", check=True).stdout.strip()
    with subprocess.Popen((f"{core}/git-daemon", *words)) as server:
        try:
            until_it_listens(port)
            yield f"git://127.0.0.1:{port}/upright.git"
        finally:
            server.terminate()


def test_a_bench_comes_home_and_narrows_the_plan(
    upright: Upright, llama_server: Path, tiny_model: Path, address: str, tmp_path: Path
) -> None:
    user = {"PATH": f"{llama_server.parent}:{os.environ['PATH']}", **WHO}
    key, bundle = tmp_path / "key", tmp_path / "mine.bundle.json"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)), check=True)

    def did(*words: str | Path, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        done = upright(*words, **user, **more)
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def planned(users: int, source: Path = ROOT) -> Any:
        words = ("plan", tiny_model, "--context", "512", "--users", f"{users}", "--engine", "llama.cpp", "--json")
        home = {"UPRIGHT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(source / "src")}
        answer = subprocess.check_output((sys.executable, "-m", "upright", *words), env={**os.environ, **user, **home})
        return json.loads(answer)["plans"][0]["speed"]

    did("probe", "--measure")
    before = planned(1)
    assert planned(2) is None, "of two users nothing was measured"
    did("up", tiny_model, "--context", "2k", "--users", "2", "--port", str(free_port()), **ONE_THREAD)
    did("bench", "--workload", "calibrate", "--budget", "90s", "--no-self-test")
    did("down")

    sending = ("bundle", "--sign", key, "-o", bundle, "--send")
    assert "states no address" in did(*sending, code=1).stderr, "none is invented"
    unasked = did(*sending, "--to", address, code=2)
    assert "say --yes" in unasked.stderr
    shown = did(*sending, "--to", address, "--yes", "--json")
    content = json.loads(bundle.read_text())
    assert json.loads(shown.stderr[shown.stderr.index("{") : shown.stderr.rindex("}") + 1]) == content, "all of it"
    branch = json.loads(shown.stdout)["sent"]["branch"]
    assert "was sent before" in did(*sending, "--to", address, "--yes", code=2).stderr

    kept = tmp_path / "kept"
    git(tmp_path, "clone", "--quiet", address, str(kept))
    git(kept, "fetch", "--quiet", "origin", branch)
    assert git(kept, "diff", "--stat", "--name-only", "HEAD", "FETCH_HEAD").split() == [
        f"bundles/{branch.removeprefix('evidence/')}.bundle.json{end}" for end in ("", ".sig")
    ], "two files, and nothing else of the tree is touched"
    assert git(kept, "log", "-1", "--format=%an <%ae>", "FETCH_HEAD").strip() == "Ada <ada@lab.invalid>"
    git(kept, "merge", "--quiet", "FETCH_HEAD")

    def admit(code: int) -> str:
        (arrived,) = (kept / "bundles").glob("*.bundle.json")
        done = subprocess.run(
            (sys.executable, kept / "scripts/admit", arrived, "--key", f"{key}.pub"),
            env={**os.environ, "UPRIGHT_HOME": str(tmp_path / "keeper"), "PYTHONPATH": ""},
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    told = admit(0)
    assert "no constants" not in told, told
    assert [line[:1] for line in told.splitlines() if "tiny-kimi" in line] == ["-", "+"], told
    assert "gpt-oss" not in told, "what was not measured does not move"
    assert admit(1).startswith("refused: ")

    after, two = planned(1, kept), planned(2, kept)
    for speed in (after, two):
        assert speed["basis"] == "measured"
        assert speed["row"].startswith("llama.cpp-")
        assert speed["full"]["high"] / speed["full"]["low"] <= WIDEST
    rates = [speed["full"] for speed in (before, after)]
    print(f"\none user {rates[0]}, then {rates[1]}; two users not known, then {two['full']}")
    narrower = rates[1]["high"] / rates[1]["low"] < rates[0]["high"] / rates[0]["low"]
    assert narrower or rates[1]["best"] < rates[0]["low"], (
        "or it corrects a band that what was measured lies outside of"
    )

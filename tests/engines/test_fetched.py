"""From a repository's name to a standing engine: a hub on loopback, the real llama-server, the tiny trained model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.loopback_hub import LoopbackHub
from tests.ports import free_port

pytestmark = pytest.mark.engine


@pytest.fixture
def hub(tiny_model: Path, tmp_path: Path) -> Iterator[LoopbackHub]:
    folder = tmp_path / "repository"
    folder.mkdir()
    shutil.copy(tiny_model, folder)
    (folder / "README.md").write_text("# tiny")
    with LoopbackHub(folder).running() as running:
        yield running


@pytest.fixture
def environment(hub: LoopbackHub, llama_server: Path, tmp_path: Path) -> dict[str, str]:
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    return {"PATH": path, "HF_ENDPOINT": hub.hub_url, "HF_HOME": str(tmp_path / "hf")}


def test_up_says_fetch_and_then_finds_it(
    upright: Upright, environment: dict[str, str], hub: LoopbackHub, tiny_model: Path
) -> None:
    refused = upright("up", "tiny/kimi:Q8_0", **environment)
    assert refused.returncode == 2
    assert refused.stderr.endswith("are not on this disk (1.22 MB)\nhint:  upright fetch tiny/kimi:Q8_0\n")
    fetched = upright("fetch", "tiny/kimi:Q8_0", **environment)
    assert fetched.stderr == "next: upright up tiny/kimi:Q8_0\n"
    assert hub.weight_bytes_sent >= tiny_model.stat().st_size
    shown = json.loads(upright("up", "tiny/kimi:Q8_0", "--dry-run", "--json", **environment).stdout)
    (path,) = [setting["value"] for setting in shown["arguments"] if setting["name"] == "--model"]
    assert path.endswith("/snapshots/0123456789abcdef0123456789abcdef01234567/tiny-kimi-q8_0.gguf")
    offline = upright("up", "tiny/kimi:Q8_0", "--dry-run", "--json", HF_HUB_OFFLINE="1", **environment)
    assert json.loads(offline.stdout)["model_path"] == path


def test_run_fetches_while_it_checks(
    upright: Upright, environment: dict[str, str], hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.bytes_per_second = 400_000
    done = upright("run", "tiny/kimi:Q8_0", "--context", "1k", "--port", str(free_port()), **environment)
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines()
    assert "MB of tiny/kimi:Q8_0 to fetch into" in told[3]
    assert told[4].startswith("check: accepted by")
    assert told[5:8] == [
        "asking llama.cpp's allocator",
        "starting llama.cpp with hollow file",
        "rehearsal: passed by allocator and hollow file",
    ]
    assert "starting" in told[8:]
    (kept,) = tmp_path.glob("home/deployments/*/evidence.json")
    climbed = {each["rung"]: each["verdict"] for each in json.loads(kept.read_text())["observations"]}
    assert climbed["rehearse"] == "passed"
    assert "stands" in done.stdout


def test_a_plan_that_says_no_fetches_nothing(upright: Upright, environment: dict[str, str], tmp_path: Path) -> None:
    done = upright("run", "tiny/kimi:Q8_0", "--context", "1m", "--yes", **environment)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[:3] == ["reading tiny/kimi:Q8_0", "probing this machine", "planning"]
    assert done.stderr.splitlines()[3].startswith("next: upright plan")
    assert not (tmp_path / "hf").exists()


def test_a_recipe_for_another_box_finds_what_was_fetched(
    upright: Upright, environment: dict[str, str], hub: LoopbackHub, tmp_path: Path
) -> None:
    """What is pasted there names the repository; the hub cache is the one that `upright fetch` fills."""
    assert upright("fetch", "tiny/kimi:Q8_0", **environment).returncode == 0
    port = free_port()
    made = upright(
        "render", "tiny/kimi:Q8_0", "--box", "1x-rtx-4090", "--context", "1k", "--port", str(port), **environment
    )
    assert "\n  --hf-repo tiny/kimi:Q8_0 \\\n" in made.stdout, made.stderr
    sent = hub.weight_bytes_sent
    kept = {**environment, "HOME": str(tmp_path), "LLAMA_ARG_OFFLINE": "1", "LLAMA_ARG_THREADS": "1"}
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(["bash", "-c", made.stdout], env=kept, stdout=output, stderr=output, process_group=0)
    try:
        deadline = time.monotonic() + 60
        while b"listening on http" not in log.read_bytes():
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    assert hub.weight_bytes_sent == sent

"""Before any weights are here: the real llama.cpp on files of holes, small and of full size."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.engines.test_line import left_running
from tests.loopback_hub import LoopbackHub
from tests.ports import free_port
from tests.sparse_models import VOCABULARY, write_k2_gguf
from upright.base.units import GIB

pytestmark = pytest.mark.engine


@pytest.fixture
def on_path(llama_server: Path) -> dict[str, str]:
    return {"PATH": f"{llama_server.parent}:{os.environ['PATH']}"}


def test_a_full_size_kimi_of_543_gib_that_is_nowhere(
    upright: Upright, on_path: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Its header comes from a hub by ranges; the engine's allocator then judges a file of its real length."""
    folder = tmp_path / "repository"
    folder.mkdir()
    write_k2_gguf(folder / "Kimi-K2-Q4_0.gguf", "Q4_0", vocabulary=VOCABULARY)
    with LoopbackHub(folder).running() as hub:
        environment = {**on_path, "HF_ENDPOINT": hub.hub_url, "HF_HOME": str(tmp_path / "hf")}
        started = time.monotonic()
        words = ("rehearse", "tiny/k2:Q4_0", "--context", "64k", "--host-memory", "768")
        done = upright(*words, "-o", tmp_path / "rehearsal.json", TMPDIR=str(tmp_path), **environment)
        seconds = time.monotonic() - started
        sent = hub.weight_bytes_sent
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "rehearsal.json").read_text())
    assert found["passed"]
    assert found["ways"] == ["allocator"]
    assert found["weights_bytes"] > 543 * GIB
    assert found["fetched_bytes"] < 16_000_000
    assert sent < 40_000_000, "read twice: once to plan, once to rehearse"
    shares = {share["what"]: share for share in found["shares"]}
    for what in ("weights", "kv_cache"):
        assert shares[what]["bytes"] == pytest.approx(shares[what]["planned_bytes"], rel=0.001)
    assert any("quality" in words for words in found["not_proved"])
    assert list(tmp_path.glob("upright-rehearsal-*")) == [], "nothing is left behind"
    with capsys.disabled():
        print(f"\n{done.stdout}\nall of it in {seconds:.1f} s")


def test_a_small_model_answers_from_a_file_of_holes(
    upright: Upright, on_path: dict[str, str], tiny_model: Path, tmp_path: Path
):
    done = upright("rehearse", tiny_model, "--context", "2k", "--port", str(free_port()), "--json", **on_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["passed"], found["answered"], found["ways"]) == (True, True, ["allocator", "hollow file"])
    shares = {share["what"]: share for share in found["shares"]}
    assert shares["kv_cache"]["bytes"] == pytest.approx(shares["kv_cache"]["planned_bytes"], rel=0.01)
    assert any(words.startswith("kernels") for words in found["proved"])
    assert upright("ps").stdout == "no deployments\n", "a rehearsal is no deployment"
    assert left_running(tmp_path) == []


def test_a_model_that_the_engine_does_not_know_falls_before_the_download(
    upright: Upright, on_path: dict[str, str], tiny_model: Path, tmp_path: Path
):
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(tiny_model.read_bytes().replace(b"exp_probs_b", b"exp_brobs_p"))
    done = upright("rehearse", odd, "--context", "2k", "--port", str(free_port()), "--json", **on_path)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert not found["passed"]
    assert found["code"] == "llama-tensors-do-not-fit"


def test_a_plan_that_says_no_is_the_answer(upright: Upright, on_path: dict[str, str], tiny_model: Path):
    done = upright("rehearse", tiny_model, "--context", "900m", "--json", **on_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["objections"]

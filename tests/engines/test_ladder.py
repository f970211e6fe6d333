"""The ladder on the real llama-server with the tiny trained model: it stands again and again, what is broken falls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.conftest import ROOT, Upright
from tests.engines.test_line import answer, box  # noqa: F401 (a fixture)
from tests.ports import free_port
from tests.twins import TWINS
from upright.facts.records.evidence import Evidence
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import Question, prompt_set
from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.guards.token_counts import tokenizer_count

pytestmark = pytest.mark.engine
CONTEXT = 1024


@contextmanager
def llama(program: Path, model: Path, *flags: str, context: int = CONTEXT, slots: int = 1) -> Iterator[str]:
    """A server that somebody else started."""
    port = free_port()
    argv = [
        program,
        "-m",
        model,
        "-c",
        context * slots,
        "-np",
        slots,
        "--port",
        port,
        "-a",
        "tiny-kimi",
        "-t",
        1,
        *flags,
    ]
    process = subprocess.Popen([*map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Endpoint(f"http://127.0.0.1:{port}", "tiny-kimi") as endpoint:
            while not endpoint.healthy("/health"):
                assert process.poll() is None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def climbed(url: str, to: str = "task", **options: Any) -> Evidence:
    with Endpoint(url, "tiny-kimi") as endpoint:
        return prove(server_target(endpoint), endpoint, prompt_set("tiny"), to=to, **options)


def failures(evidence: Evidence) -> list[tuple[str, str, str]]:
    return [(item.rung, item.check, item.reason) for item in evidence.observations if item.verdict == "failed"]


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.timeout(1500)
def test_the_whole_ladder_again_and_again(times: int, llama_server: Path, tiny_model: Path) -> None:
    """New long texts and new needles in each climb; no alarm in any."""
    with llama(llama_server, tiny_model, context=2048) as url:
        for _ in range(times):
            evidence = climbed(url)
            assert failures(evidence) == []
            assert {"boot", "smoke", "tools", "context"} <= {
                rung for rung in evidence.rungs if evidence.rung_verdict(rung) == "passed"
            }
            full = [item for item in evidence.observations if item.check == "full cache"]
            assert all(item.measured["cache_usage"] > 0.9 for item in full), "the cache was really full"


def test_two_users_fill_the_cache_together(llama_server: Path, tiny_model: Path) -> None:
    with llama(llama_server, tiny_model, slots=2, context=2048) as url:
        evidence = climbed(url, to="context")
    full = [item for item in evidence.observations if item.check == "full cache"]
    assert failures(evidence) == []
    assert {item.verdict for item in full} == {"passed"}
    assert all(item.measured["cache_usage"] > 0.9 for item in full)


def test_a_wrong_rope_base_is_found_where_short_answers_are_right(llama_server: Path, tiny_model: Path) -> None:
    with llama(llama_server, tiny_model, *TWINS["rope-base"].flags) as url:
        smoke, tools = climbed(url, rungs=("boot", "smoke")), climbed(url, rungs=("boot", "tools"))
    short = [item.verdict for item in smoke.observations if item.check in ("language", "arithmetic")]
    assert short.count("passed") > len(short) // 2, "short answers are right"
    assert {rung for rung, _, _ in failures(tools)} == {"tools"}, "what is copied from further away is not"


@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if "gguf" in twin.formats and not twin.flags])
def test_a_broken_twin_is_stopped_at_its_rung(name: str, llama_server: Path, tmp_path: Path) -> None:
    """Healthy, every reply HTTP 200, and wrong."""
    twin = TWINS[name]
    context = 4096 if twin.stops_at == "context" else CONTEXT
    with llama(llama_server, twin.gguf(tmp_path / f"{name}.gguf"), context=context) as url:
        evidence = climbed(url, to="context")
    assert failures(evidence)
    order = ("boot", "smoke", "tools", "context")
    assert order.index(evidence.rungs[-1]) <= order.index(twin.stops_at), failures(evidence)
    assert all(item.response is not None for item in evidence.observations if item.verdict == "failed" and item.request)


def test_json_schema_that_is_ignored_is_named(llama_server: Path, tiny_model: Path) -> None:
    """llama.cpp with a Kimi template: HTTP 200, and prose. A right server is not broken for it, and not praised."""
    form = {"type": "object", "properties": {"zip": {"type": "integer"}}, "required": ["zip"]}
    row = Question(
        check="json_schema", ask="What is the capital of France?", rule="schema", expect=form, sample='{"zip": 1}',
        max_tokens=64, enforce_schema=True,
    )  # fmt: skip
    asked = prompt_set("tiny").model_copy(update={"smoke": (row,), "dialogues": ()})
    with llama(llama_server, tiny_model) as url, Endpoint(url, "tiny-kimi") as endpoint:
        evidence = prove(server_target(endpoint), endpoint, asked, rungs=("smoke",))
    assert [(item.verdict, item.check) for item in evidence.observations] == [("unsupported", "json_schema")]
    assert "json_schema is ignored: HTTP 200" in evidence.observations[0].reason


def test_the_servers_count_is_its_tokenizers(llama_server: Path, tiny_model: Path) -> None:
    tools = prompt_set("tiny").declared(("get_weather",))
    with llama(llama_server, tiny_model) as url, Endpoint(url, "tiny-kimi") as endpoint:
        for messages in ([{"role": "user", "content": "What is 17 + 25?"}], [{"role": "user", "content": "北京 ü 🙂"}]):
            said = endpoint.chat(messages, max_tokens=4, tools=tools).prompt_tokens
            assert said == tokenizer_count(endpoint, messages, tools)


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["boot", "smoke", "tools", "context"])
def test_an_engine_killed_inside_a_rung_is_never_passed(rung: str, llama_server: Path, tiny_model: Path) -> None:
    """kill -9 of the engine while a question of that rung is being asked."""
    port = free_port()
    argv = [llama_server, "-m", tiny_model, "-c", CONTEXT, "-t", 1, "--port", port, "-a", "tiny-kimi"]
    process = subprocess.Popen([*map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Endpoint(f"http://127.0.0.1:{port}", "tiny-kimi") as endpoint:
            while not endpoint.healthy("/health"):
                time.sleep(0.1)
            target, rungs = server_target(endpoint), ("boot", "smoke", "tools", "context")
            seen: list[str] = []

            def on_observation(item: Any) -> None:
                seen.append(item.rung)
                if item.rung == rung:
                    threading.Timer(0.01, process.kill).start()

            evidence = prove(
                target, endpoint, prompt_set("tiny"), to="context", rungs=rungs, on_observation=on_observation
            )
    finally:
        process.kill()
        process.wait()
    assert evidence.rung_verdict(rung) == "failed"
    assert not evidence.passed
    assert evidence.ended is not None
    assert evidence.rungs[-1] == rung, "what comes after it was not looked at"


def test_steps_are_kept_or_taken_back(box: Upright, tiny_model: Path) -> None:  # noqa: F811
    """One setting at a time: a longer context is kept, a wrong RoPE base is taken back, and the engine stands again."""
    answer(box("up", tiny_model, "--context", "1k", "--port", str(free_port()), "--json"))
    tries = ("--context", "1536", "--try=--rope-freq-base=1000")
    evidence = answer(box("prove", "--to", "context", *tries, "--json", timeout=300))
    steps = {step["setting"]: step for step in evidence["steps"]}
    assert steps["--ctx-size"]["outcome"] == "kept"
    assert steps["--rope-freq-base"]["outcome"] == "stepped back"
    assert steps["--rope-freq-base"]["reason"]
    now = answer(box("ps", "--json"))[0]
    assert (now["state"], now["context_tokens"]) == ("ready", 1536)


@pytest.mark.slow
def test_a_climb_killed_while_it_tries_goes_back(box: Upright, tiny_model: Path, tmp_path: Path) -> None:  # noqa: F811
    answer(box("up", tiny_model, "--context", "1k", "--port", str(free_port()), "--json"))
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    words = ["prove", "--to", "smoke", "--try=--rope-freq-base=1000"]
    climb = subprocess.Popen([*command(), *words], env=environment, stderr=subprocess.PIPE, text=True)
    assert climb.stderr is not None
    for line in climb.stderr:
        if line.startswith("trying"):
            break
    time.sleep(0.5)
    os.kill(climb.pid, signal.SIGKILL)
    climb.communicate()
    after = box("prove", "--to", "smoke", "--json", timeout=300)
    assert answer(after)["observations"]
    assert "back to the last good recipe" in after.stderr or "interrupted" in after.stderr
    recipe = (tmp_path / "home/deployments/tiny-kimi/recipe.json").read_text()
    assert "rope-freq-base" not in recipe


def test_the_script_of_the_first_write_ups(llama_server: Path, tiny_model: Path, tmp_path: Path) -> None:
    with llama(llama_server, tiny_model) as url:
        done = subprocess.run(
            [sys.executable, ROOT / "scripts/smoke_test_openai.py", "--base-url", f"{url}/v1", "--model", "tiny-kimi",
             "--prompts", "tiny"],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "UPRIGHT_HOME": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "80"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "stands, up to smoke, on llama.cpp" in done.stdout
    assert len(done.stdout.splitlines()) <= 24, "one screen"
    assert max(map(len, done.stdout.splitlines())) <= 80

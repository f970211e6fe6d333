"""A real mlx_lm.server from one command to a client's answer, and up the ladder to answers under load."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.conftest import Upright
from tests.mlx.conftest import ENGINE, WORDS, Standing, answer
from tests.ports import free_port
from upright.base.errors import EndpointError
from upright.proof.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import ProofTarget
from upright.proof.ladder.rungs import parallel
from upright.serving.endpoint.client import Endpoint

pytestmark = pytest.mark.slow
QUESTION = {"role": "user", "content": "What is the capital of France?"}
ASKS = """#!/bin/sh
curl -s -H "Content-Type: application/json" "$OPENAI_API_BASE/chat/completions" -d '{"model": "default_model",
  "max_tokens": 32, "temperature": 0, "messages": [{"role": "user", "content": "What is the capital of France?"}]}'
exit 7
"""


def test_one_command_runs_it_and_stops_it(mlx_box: Upright, mlx_model: Path):
    done = answer(mlx_box("run", mlx_model, *WORDS, "--port", str(free_port()), "--to", "smoke", "--json"))
    seen = done["evidence"]["observations"]
    assert {item["verdict"] for item in seen if item["rung"] == "smoke"} <= {"passed", "unsupported"}
    (left,) = answer(mlx_box("ps", "--json"))
    assert left["state"] == "stopped"


def test_one_command_to_a_client_and_nothing_is_left(mlx_box: Upright, mlx_model: Path, mlx_bin: Path, tmp_path: Path):
    client = tmp_path / "client"
    client.mkdir()
    (client / "aider").write_text(ASKS)
    (client / "aider").chmod(0o755)
    words = ("--model", mlx_model, *ENGINE, "--context", "4k", "--port", str(free_port()))
    done = mlx_box("launch", "aider", *words, PATH=f"{client}:{mlx_bin}:/usr/bin:/bin")
    assert done.returncode == 7, done.stderr
    assert "The capital of France is Paris." in done.stdout
    (left,) = answer(mlx_box("ps", "--json"))
    assert left["state"] == "stopped"


def test_it_climbs_to_what_clients_rely_on(standing: Standing):
    """No prompt is sent that it would read for minutes; what it does not have keeps no client from working."""
    seen = standing.json("prove", standing.name, "--to", "clients", "--prompts", "tiny")["observations"]
    assert [item for item in seen if item["verdict"] == "failed"] == []
    found = {item["probe"]: item for item in seen if item["rung"] == "clients"}
    assert found["long prompt"]["reason"].startswith("not sent: ")
    assert {found[f"for {client}"]["verdict"] for client in ("openai", "llm", "zed", "curl")} == {"passed"}
    assert standing.json("connect", standing.name, "--client", "openai")["works"]


def test_answers_under_load_are_what_they_are_alone(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    """With few of its 300 requests: all of them take minutes on two cores."""
    monkeypatch.setattr(parallel, "_REQUESTS", 36)
    monkeypatch.setattr(parallel, "_LOWER_REQUESTS", 12)
    with Endpoint(standing.base_url, "default_model") as endpoint:
        target = ProofTarget("mlx", "server:0", context_tokens=512, users=4, engine="mlx")
        seen = prove(target, endpoint, prompt_set("tiny"), rungs=("boot", "parallel")).of("parallel")
    verdicts = {item.probe: item.verdict for item in seen}
    assert verdicts.pop("full cache") == "unsupported", "it does not say how full its cache is"
    assert verdicts == dict.fromkeys(("alone", "concurrency 2", "concurrency 4", "alone again"), "passed")


def test_the_official_sdk_works_with_what_connect_says(standing: Standing):
    """Its connections are not kept and its errors have no `message`: needs.yaml says that the SDK can do without."""
    settings = standing.json("connect", standing.name, "--client", "openai")
    with openai.OpenAI(base_url=settings["base_url"], api_key="none", max_retries=0, timeout=120) as client:
        create = client.chat.completions.create
        for _ in range(2):
            whole = create(model=settings["model"], messages=[QUESTION], max_tokens=32, temperature=0)
            assert whole.choices[0].message.content == "The capital of France is Paris."
        pieces = create(model=settings["model"], messages=[QUESTION], max_tokens=32, temperature=0, stream=True)
        said = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert said == "The capital of France is Paris."
        with pytest.raises(openai.BadRequestError) as refused:
            create(model=settings["model"], messages="not a list")
    assert refused.value.body


def test_a_client_that_asks_for_what_it_does_not_have_is_named(standing: Standing):
    with pytest.raises(EndpointError), Endpoint(standing.base_url, "default_model") as endpoint:
        endpoint.post("/v1/responses", {"model": "default_model", "input": "hello"})
    findings = standing.json("diagnose", standing.name, code=1)["findings"]
    assert "client-endpoint-missing" in {finding["code"] for finding in findings}

"""`prove --dry-run`: what would be asked of that deployment, or of a server that is not there yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.golden.deployments import recipe
from tests.unit.facts.store.samples import deployment
from tests.unit.planning.planning_examples import model
from upright.facts import store

DRY = ("--dry-run", "--to", "context", "--rates", "300,20")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four users with 2,048 tokens each of a model with few parameters."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    directory = store.create("tiny")
    directory.write(deployment("tiny").model_copy(update={"context_tokens": 2_048}))
    directory.write(recipe("kimi-k26-vllm").model_copy(update={"context_tokens": 2_048, "users": 4}))
    directory.write(model(weight_gib=0.001))


def lengths(rows: str) -> list[str]:
    return [row["group"] for row in json.loads(rows) if row["rung"] == "context"]


@pytest.mark.usefixtures("tiny")
def test_it_is_of_the_deployment_that_is_named(upright: Upright) -> None:
    done = upright("prove", "tiny", *DRY, "--json")
    assert lengths(done.stdout)[-2:] == ["2,048 tokens", "full cache"]
    assert json.loads(done.stdout)[0]["rung"] == "arguments", "there is a recipe to look at"
    assert done.stderr == "next: upright prove tiny --to context\n"


@pytest.mark.usefixtures("tiny")
def test_changes_are_climbed_again(upright: Upright) -> None:
    done = upright("prove", "tiny", *DRY, "--context", "4k", "--try=--flag=2", "--json")
    assert lengths(done.stdout)[-2:] == ["4,096 tokens", "full cache"]
    assert done.stderr.splitlines() == [
        "then a restart and a climb with --max-model-len 3072",
        "then a restart and a climb with --max-model-len 4096",
        "then a restart and a climb with --flag 2",
        "next: upright prove tiny --to context --context 4096 --try --flag=2",
    ]


def test_without_a_name_it_is_of_a_server_that_is_not_there_yet(upright: Upright) -> None:
    done = upright("prove", *DRY, "--json")
    assert lengths(done.stdout) == ["65,536 tokens", "full cache"]


def test_a_name_that_is_none_is_refused(upright: Upright) -> None:
    done = upright("prove", "nosuch", *DRY)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no deployment named nosuch" in done.stderr

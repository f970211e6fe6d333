"""A deployment's directory -> a statement: nothing of its owner in it, everything that a reader needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.unit.evidence.share.tampering import FOLDER, copied, recorded
from tests.unit.facts.store.samples import deployment
from upright.evidence.share.making_statements import make_statement, salt, share
from upright.evidence.share.statement import identity_of, read_statement
from upright.evidence.share.verifying import verify
from upright.facts import store
from upright.facts.records.base import from_dict
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.evidence import Evidence
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import save_benchmark

SECRETS = ("margaret", "/data/private", "my question", "my answer", "sk-", "31337", "tr0ub4dor", "203.0.113.9")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeploymentDir:
    """What a real run left, with its owner's secrets put back in everywhere."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_DEPLOY_TOKEN", "tr0ub4dor-and-3")
    made = store.create("tiny")
    key = made.key()
    predicate = copied()["predicate"]
    kept = predicate["records"]
    box = from_dict(Box, kept["box"]).model_copy(update={"name": "margarets-box"})
    model = from_dict(Model, kept["model"]).model_copy(
        update={"source": "/data/private/tiny.gguf", "path": "/data/private/tiny.gguf"}
    )
    plan = from_dict(Plan, kept["plan"]).model_copy(update={"box": box.name})
    recipe = from_dict(Recipe, kept["recipe"])
    recipe = recipe.model_copy(
        update={
            "program": "/data/private/llama-server", "model_path": "/data/private/tiny.gguf", "port": 31337,
            "arguments": (
                *recipe.arguments[1:],
                Setting(name="--model", value="/data/private/tiny.gguf", reason=f"for margaret, {key}"),
                Setting(name="--port", value="31337", reason="tr0ub4dor-and-3"),
            ),
        }
    )  # fmt: skip
    evidence = from_dict(Evidence, kept["evidence"])
    seen = tuple(
        observation.model_copy(
            update={
                "request": {"messages": "my question"}, "response": {"text": "my answer"},
                "reason": "it said: my answer", "subject": recipe.reference,
            }
        )
        for observation in evidence.observations
    )  # fmt: skip
    for record in (box, model, plan, recipe, from_dict(Residuals, kept["residuals"]), deployment(made.name)):
        made.write(record)
    made.write(evidence.model_copy(update={"observations": seen, "deployment": "margarets"}))
    benchmark = from_dict(Benchmark, predicate["benchmarks"][0])
    cells = tuple(
        cell.model_copy(update={"recipe": recipe.digest, "error_samples": {"500": "my question"}})
        for cell in benchmark.cells
    )
    save_benchmark(made, benchmark.model_copy(update={"cells": cells, "base_url": "http://margarets-box:31337"}))
    made.log.write_text("\n".join([f"Bearer {key} from 203.0.113.9", "my question", *predicate["log"]]))
    return made


def test_nothing_of_its_owner_is_in_it_and_it_verifies(directory: DeploymentDir) -> None:
    content = make_statement(directory).encoded()
    assert [secret for secret in (*SECRETS, directory.key(), salt()) if secret in content.decode()] == []
    verification = verify(read_statement(content, "it"), identity_of(content))
    wrong = {check.code: check.reason for check in verification.broken}
    assert set(wrong) <= {"flags"}, wrong
    assert {check.code for check in verification.checks} >= {"samples", "headline", "ladder", "engine-clock", "log"}


def test_the_same_directory_gives_the_same_bytes(directory: DeploymentDir, tmp_path: Path) -> None:
    first = share(directory, tmp_path / "1.json", key=None)
    assert share(directory, tmp_path / "2.json", key=None).content == first.content
    assert (tmp_path / "1.json").read_bytes() == first.content
    assert identity_of(first.content) == first.statement.identity


def test_a_box_is_told_apart_and_not_named(directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_statement(directory).predicate.box.box_id
    assert make_statement(directory).predicate.box.box_id == first
    (store.home() / "sharing.salt").write_text("another person\n")
    assert make_statement(directory).predicate.box.box_id != first
    machine = Path("/etc/machine-id")
    assert not machine.exists() or machine.read_text().strip() not in make_statement(directory).encoded().decode()


def test_a_log_of_another_start_is_no_witness(directory: DeploymentDir) -> None:
    lines = directory.log.read_text().splitlines()
    directory.log.write_text("\n".join(line for line in lines if "eval time" not in line))
    content = make_statement(directory).encoded()
    checks = verify(read_statement(content, "it"), identity_of(content)).checks
    assert [check.outcome for check in checks if check.code == "engine-clock"] == ["unknown"]


def test_what_is_shown_is_what_is_written(directory: DeploymentDir, upright: Upright, tmp_path: Path) -> None:
    shown = upright("bundle", directory.name, "--statement", "--show")
    assert shown.returncode == 0, shown.stderr
    assert list(tmp_path.glob("*.json")) == []
    written = upright("bundle", directory.name, "--statement", "-o", "one.json", "--json")
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "one.json").read_text() == shown.stdout


def test_the_verb_answers_by_its_exit_code(upright: Upright, tmp_path: Path) -> None:
    good = recorded(FOLDER / "01.json.gz")
    (tmp_path / "good.json").write_bytes(good)
    (tmp_path / "bad.json").write_bytes(good.replace(b'"repeats":2,"run"', b'"repeats":3,"run"'))
    (tmp_path / "none.json").write_bytes(b"{}")
    done = upright("verify", "good.json", "--at-least", "consistent")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("consistent: tiny-kimi on ")
    assert upright("verify", "good.json", "--at-least", "reproduced").returncode == 1
    assert upright("verify", "bad.json").returncode == 1
    assert upright("verify", "none.json").returncode == 2

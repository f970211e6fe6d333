"""What `diagnose` says, and by which exit code, of files that show no engine that stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.conftest import ROOT
from upright.app.cli.diagnose import command
from upright.app.cli.up import command as up
from upright.base.errors import UprightError, UsageError
from upright.facts import store
from upright.facts.records.deployment import Deployment

DEPLOYMENT: dict[str, Any] = {
    "name": "moon", "state": "failed", "engine": "vllm", "engine_version": "0.32.0", "served_name": "moon",
    "base_url": "http://127.0.0.1:8000", "context_tokens": 2048, "created_at": "2026-11-16T10:00:00+00:00",
    "changed_at": "2026-11-16T10:00:00+00:00",
}  # fmt: skip
CLEAN = ROOT / "tests/recordings/logs/clean"


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ("", "the log is empty: "),
        ("hello world\n", "this is no engine's log: "),
        (
            "INFO 11-15 20:00:00 [api_server.py:1] vLLM API server version 0.32.0\n",
            "the log ends before the engine was ",
        ),
        ("Killed\n", "killed-from-outside: "),
    ],
)
def test_nothing_is_called_healthy_that_shows_no_engine_that_stands(text: str, headline: str, tmp_path: Path):
    log = tmp_path / "engine.log"
    log.write_text(text)
    done = CliRunner().invoke(command, [str(log)])
    assert done.stdout.startswith(headline)
    assert done.exit_code == 1


def test_a_page_about_logs_is_no_log_and_a_clean_log_is_clean():
    assert CliRunner().invoke(command, [str(CLEAN / "README.md")]).exit_code == 1
    done = CliRunner().invoke(command, [str(CLEAN / "llama-default.log")])
    assert (done.exit_code, done.stdout.splitlines()[0].partition(" in ")[0]) == (0, "nothing failed")


def test_a_directory_is_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert isinstance(done.exception, UsageError)
    assert "is a directory" in done.exception.message


def test_a_refused_up_is_what_a_bare_diagnose_talks_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    refused = CliRunner().invoke(up, [str(tmp_path / "moon.gguf")])
    assert isinstance(refused.exception, UprightError)
    done = CliRunner().invoke(command, ["--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (told["code"], told["failed"], told["subject"]) == ("up-refused", True, f"up {tmp_path / 'moon.gguf'}")
    assert told["findings"][0]["cause"] == f"{refused.exception.message}; `up` started no engine"
    store.forget_refusal()
    assert isinstance(CliRunner().invoke(command, []).exception, UsageError)


def test_a_note_of_a_refusal_that_is_torn_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    for torn in (b"", b"[1]", b'{"model": "x"', b'{"message": null}', b"\xff"):
        (tmp_path / "refused.json").write_bytes(torn)
        assert store.last_refusal() is None


def test_previous_is_the_start_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    directory = store.create("moon")
    directory.write(Deployment.model_validate(DEPLOYMENT))
    only_one = CliRunner().invoke(command, ["moon", "--previous"])
    assert isinstance(only_one.exception, UsageError)
    assert "only once" in only_one.exception.message
    (directory.path / "engine-1.log").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    told = json.loads(CliRunner().invoke(command, ["moon", "--previous", "--json"]).stdout)
    assert (told["code"], told["subject"]) == ("cuda-out-of-memory", "moon")
    assert CliRunner().invoke(command, [str(directory.path / "engine-1.log"), "-p"]).exit_code == 2

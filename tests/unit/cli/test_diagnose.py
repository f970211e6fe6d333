"""What `diagnose` says, and by which exit code, of files that show no engine that stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import ROOT
from upright.cli.diagnose import command
from upright.errors import UsageError

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

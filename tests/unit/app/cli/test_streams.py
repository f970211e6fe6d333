"""Where an answer cannot go: said in a line, never in a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PLAN = [sys.executable, "-m", "upright", "plan", "kimi-k2.6", "--box", "hgx-b200"]


def run(home: Path, command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command, "sh", *PLAN],
        capture_output=True,
        text=True,
        encoding="latin-1",
        check=False,
        timeout=60,
        env={**os.environ, "UPRIGHT_HOME": str(home), **env},
    )


def test_a_full_disk(tmp_path: Path):
    done = run(tmp_path, '"$@" > /dev/full')
    assert (done.returncode, done.stderr) == (2, "error: the answer could not be written: No space left on device\n")


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(tmp_path: Path, closing: str):
    done = run(tmp_path, f'"$@" {closing}')
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr


def test_what_an_encoding_lacks_is_a_question_mark(tmp_path: Path):
    done = run(tmp_path, '"$@" --why', PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Kimi-K2.6")


def test_ctrl_c_during_the_first_imports(tmp_path: Path):
    """The import itself is interrupted, at a point that no clock decides."""
    (tmp_path / "click.py").write_text(f"import os\nos.kill(os.getpid(), {int(signal.SIGINT)})\n")
    done = run(tmp_path, '"$@"', PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', 'src')}")
    assert (done.returncode, done.stderr) == (130, "stopped\n")


def test_a_dumb_terminal_gets_no_escapes(tmp_path: Path):
    done = run(tmp_path, 'script -qec "$*" /dev/null', TERM="dumb")
    assert "Kimi-K2.6" in done.stdout
    assert "\x1b" not in done.stdout

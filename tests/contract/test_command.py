"""The command that tests have (tests/command) -> the command that a person has: the same words, the same process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests import command
from tests.conftest import ROOT, TINY_MODEL, Upright
from upright.app.cli.verbs import VERBS

RECORDED = ROOT / "tests/recordings/boxes/synthetic-hgx-b200"
WORDS: dict[str, list[str]] = {
    "probe": ["probe", str(RECORDED)],
    "read": ["read", str(TINY_MODEL)],
    "plan": ["plan", "kimi-k2.6", "--box", "hgx-b200"],
    "render": ["render", "kimi-k2.6", "--box", "hgx-b200"],
    "check": ["check", str(TINY_MODEL), "--box", "hgx-b200"],
    "demo": ["demo", "nothing"],
    "run": ["run", "nothing"],
    "fetch": ["fetch", "nothing"],
    "rehearse": ["rehearse", "nothing"],
    "up": ["up", "nothing"],
    "ps": ["ps", "--json"],
    "top": ["top", "--once"],
    "logs": ["logs"],
    "restart": ["restart"],
    "down": ["down"],
    "diagnose": ["diagnose", str(ROOT / "README.md")],
    "fleet": ["fleet", "size", "kimi-k2.6", "--box", "hgx-b200", "--users", "5"],
    "prove": ["prove", "--base-url", "http://127.0.0.1:1", "--model", "none"],
    "bench": ["bench", "--base-url", "http://127.0.0.1:1"],
    "connect": ["connect"],
    "monitor": ["monitor"],
    "mcp": ["tools", "mcp", "--json"],
    "residuals": ["residuals"],
    "bundle": ["bundle"],
    "report": ["report", "nobody"],
    "explain": ["explain", "mla"],
    "calibrate": ["calibrate"],
    "catalog": ["catalog", "show", "gpus", "rtx-5090"],
    "store": ["store", "check"],
    "kernels": ["kernels", "check", "nothing"],
    "completion": ["completion", "bash"],
    "recommend": ["recommend", "--box", "1x-rtx-4090", "--ram", "96"],
    "compare": ["compare", "gpt-oss-120b", "--box", "dgx-spark", "--box", "8x-h100"],
    "patch": ["patch", "list", "--engine", "vllm"],
    "engine": ["engine", "how", "sglang", "--box", "hgx-h200"],
    "launch": ["launch", "emacs"],
    "verify": ["verify", "nothing"],
    "replay": ["replay", "nothing"],
    "record": ["record", "nothing"],
    "field-test": ["field-test", "--budget", "1s", "--box", "dgx-spark", "--dry-run"],
    "index": ["index", "nothing"],
    "site": ["site", "nothing"],
    "share": ["share", "report", "nobody"],
    "tools": ["tools", "kernels", "patch", "list", "--engine", "vllm"],
}


def test_every_verb_is_among_them() -> None:
    assert set(WORDS) == set(VERBS)


@pytest.mark.parametrize("verb", WORDS)
def test_it_says_what_a_process_of_its_own_says(verb: str, upright: Upright, tmp_path: Path) -> None:
    """Also the one start of each verb that imports all of it anew."""
    forked = upright(*WORDS[verb])
    argv = [sys.executable, "-m", "upright", *WORDS[verb]]
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    real = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)
    assert "Traceback" not in real.stderr


def test_folder_and_environment_are_the_callers_and_nothing_stays(upright: Upright, tmp_path: Path) -> None:
    assert upright("plan", "kimi-k2.6", "--box", "hgx-b200", "-o", "plan.json").returncode == 0
    assert (tmp_path / "plan.json").exists()
    row = "- {id: mine, word: mine, of: word, about: It is mine., matters: To me., sources: [me], grade: D}\n"
    (tmp_path / "other/catalog/terms").mkdir(parents=True)
    (tmp_path / "other/catalog/terms/mine.yaml").write_text(row)
    there = {"UPRIGHT_HOME": str(tmp_path / "other")}
    assert upright("catalog", "show", "terms", "mine", **there).returncode == 0
    assert upright("catalog", "show", "terms", "mine").returncode == 2
    assert upright("ps", UPRIGHT_PS_NO_SUCH="1").returncode == 0


def test_what_an_interpreter_reads_as_it_starts_makes_a_real_one(
    upright: Upright, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = upright("explain", "mla", PYTHONVERBOSE="1")
    assert "import 'encodings" in done.stderr
    monkeypatch.setenv("PYTHONVERBOSE", "1")  # of all that comes after, not of the server that stands
    assert "import 'encodings" in upright("explain", "mla").stderr
    argv = [*command.command(), "explain", "mla"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "import 'encodings" in done.stderr


def test_a_program_of_that_name_speaks_on_its_callers_streams(tmp_path: Path) -> None:
    script = f"echo A line that no engine wrote | {command.program()} diagnose - 2>&1 | head -n 1"
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (done.stderr, done.stdout) == ("", "this is no engine's log: what was piped in\n")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_a_signal_reaches_it_and_its_end_comes_back(sent: signal.Signals, code: int) -> None:
    argv = [*command.command(), "diagnose", "-"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdin is not None
        started.stdin.write("more than a pipe holds, so that some of it was read\n" * 4000)
        for _ in range(10):
            started.send_signal(sent)
            with suppress(subprocess.TimeoutExpired):  # Python hears of a signal between two reads when the next ends
                started.wait(2)
                break
        assert started.poll() == code
        assert started.stderr is not None
        assert started.stderr.read().strip() == ("stopped" if sent is signal.SIGINT else "")  # the stream ends with it


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        command.run(["fleet", "size", "kimi-k2.6", "--box", "hgx-b200", "--users", "5"], dict(os.environ), tmp_path, 0)

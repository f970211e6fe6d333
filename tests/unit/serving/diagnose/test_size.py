"""A log of any size in bounded memory, at a rate that is told beside grep's on the same file."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.serving.diagnose.noise import vllm
from upright.facts import catalog

MIB = 1 << 20
MEMORY_BYTES = 384 * MIB
"""Address space of the whole process, Python and its libraries among it."""
CAUSE = (
    "(Worker_TP5 pid=305) ERROR 05-15 03:31:20 [x.py:1] RuntimeError: DeepGEMM backend is not available or outdated."
)


def written(path: Path, size_bytes: int) -> Path:
    """Noise, and a cause near its end."""
    block = ("\n".join(vllm(40_000)) + "\n").encode()
    with path.open("wb") as file:
        while file.tell() < size_bytes:
            file.write(block)
        file.write(f"{CAUSE}\n".encode() + block[:100_000])
    return path


def judged(log: Path) -> tuple[float, str]:
    """Seconds and stdout of `upright diagnose`, in a process that cannot have more than so much memory."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "upright", "diagnose", str(log)],
        capture_output=True, text=True, preexec_fn=limited, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return time.perf_counter() - started, done.stdout


def grepped(log: Path) -> float:
    """grep -E for the same patterns, as far as it can say them: a count of hundreds makes its automaton explode."""
    patterns = [
        row.pattern
        for row in catalog.failures()
        if row.where == "log" and not re.search(r"\(\?[=!<i]|\{0,\d{3}\}", row.pattern)
    ]
    plain = [re.sub(r"\(\?(?:P<\w+>|:)", "(", each).replace(r"\d", "[0-9]").replace("*?", "*") for each in patterns]
    (log.parent / "patterns").write_text("\n".join(plain))
    started = time.perf_counter()
    done = subprocess.run(
        ["grep", "-cE", "-f", str(log.parent / "patterns"), str(log)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - started


def compared(tmp_path: Path, size_bytes: int) -> tuple[float, float]:
    log = written(tmp_path / "engine.log", size_bytes)
    ours, page = judged(log)
    theirs = grepped(log)
    assert "vllm-deepgemm-missing" in page
    assert "Worker_TP5" in page
    size = log.stat().st_size / 1e6
    print(
        f"\n{size:.0f} MB: upright diagnose {ours:.1f} s ({size / ours:.0f} MB/s, starting Python included), "
        f"grep -E {theirs:.1f} s ({size / theirs:.0f} MB/s): {ours / theirs:.1f} times grep's time"
    )
    return ours, theirs


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("grep") is None, reason="there is no grep")
def test_fifty_megabytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with capsys.disabled():
        compared(tmp_path, 50_000_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_gigabyte(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with capsys.disabled():
        ours, theirs = compared(tmp_path, 1_000_000_000)
    assert ours < 20 * theirs

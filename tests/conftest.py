"""Fixtures that every test may use: the command as a user has it, a real engine, the tiny trained model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parent.parent
TINY_MODEL = ROOT / "tests/assets/tiny-kimi/tiny-kimi-q8_0.gguf"
hypothesis.settings.register_profile("house", deadline=None, max_examples=60)  # busy machines are not bugs
hypothesis.settings.load_profile("house")
Upright = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def upright(tmp_path: Path) -> Upright:
    """Runs `upright ARGS...` as a user would, in a subprocess with a home of its own."""

    def run(*args: str | Path, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "upright", *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1", **env},
            cwd=tmp_path,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """A real llama-server, unpacked once into the cache."""
    done = subprocess.run([ROOT / "scripts/get-llama-server"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    return TINY_MODEL

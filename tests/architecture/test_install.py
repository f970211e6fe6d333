"""A fresh install, by hash as SECURITY.md writes it, is small and brings neither torch nor numpy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

LIMIT_MB = 85
BUILDS_ONLY = ("hatchling", "trove-classifiers", "pathspec", "pluggy")
"""What builds the wheel, pinned beside the rest; whoever installs a wheel has none of it."""


@pytest.mark.engine  # half a minute, so with the later stage
@pytest.mark.timeout(600)  # a loaded machine is no bug
def test_a_fresh_install_is_small(tmp_path: Path, capsys):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment / "bin/python"]
    for words in (["--require-hashes", "-r", ROOT / "requirements.txt"], ["--no-deps", "--no-build-isolation", ROOT]):
        done = subprocess.run([*pip, "install", "-q", *words], capture_output=True, text=True, timeout=570, check=False)
        assert done.returncode == 0, done.stderr
    subprocess.run([*pip, "uninstall", "-q", "-y", *BUILDS_ONLY], capture_output=True, check=True)
    packages = next((environment / "lib").glob("python*/site-packages"))
    size_mb = sum(path.stat().st_blocks * 512 for path in packages.rglob("*")) / 1e6
    with capsys.disabled():
        print(f"\nfresh install: {size_mb:.0f} MB (limit {LIMIT_MB} MB)")
    assert size_mb <= LIMIT_MB
    assert not [path.name for path in packages.iterdir() if path.name in ("torch", "numpy")]
    done = subprocess.run([environment / "bin/upright", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"upright \d+\.\d+\.\d+\n", done.stdout)

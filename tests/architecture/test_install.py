"""A fresh install, by hash as SECURITY.md writes it, is small and brings neither torch nor numpy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

LIMIT_MB = {"dependencies": 65, "upright": 24}
"""Apart: rows of the catalogue may grow by what is learned, what others bring may not. README says the sum."""
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
    size_mb = dict.fromkeys(LIMIT_MB, 0.0)
    for path in packages.rglob("*"):
        ours = path.relative_to(packages).parts[0].startswith("upright")
        size_mb["upright" if ours else "dependencies"] += path.stat().st_blocks * 512 / 1e6
    with capsys.disabled():
        print(
            f"\nfresh install: { ({name: round(size, 1) for name, size in size_mb.items()}) } MB (limits {LIMIT_MB} MB)"
        )
    assert all(size <= LIMIT_MB[name] for name, size in size_mb.items()), size_mb
    assert f"below {sum(LIMIT_MB.values())} MB" in (ROOT / "README.md").read_text()
    assert not [path.name for path in packages.iterdir() if path.name in ("torch", "numpy")]
    done = subprocess.run([environment / "bin/upright", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"upright \d+\.\d+\.\d+\n", done.stdout)

"""A GPU, a model and an engine's flag as rows of the catalogue: scripts/refresh is all that they ask for.

About 11 minutes on two busy cores.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import nearest_flags

CATALOG = Path("src/upright/facts/catalog")
GPU = {"NVIDIA GeForce RTX 5090": "NVIDIA RTX Nova", "5090": "nova"}
MODEL = {"(?<!openai--)gpt-oss-20b": "nova-20b", "openai/|ggml-org/": "nova-labs/", '"gpt-oss"\\]': '"nova"]'}
"""Words of a row that is there -> of the one that is added."""
TESTS = ("tests/unit/planning", "tests/unit/facts", "tests/golden")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The repository with three rows more."""
    ignored = shutil.ignore_patterns(".git", ".cache", ".venv", "__pycache__")
    tree = shutil.copytree(ROOT, tmp_path / "tree", symlinks=True, ignore=ignored)
    gpus = tree / CATALOG / "gpus.yaml"
    row = re.search(r'(?ms)^- id: "rtx-5090"\n.*?(?=^- id)', gpus.read_text())
    assert row is not None
    gpus.write_text(gpus.read_text() + _renamed(row[0], GPU))
    model = (tree / CATALOG / "models/gpt-oss-20b.yaml").read_text()
    (tree / CATALOG / "models/nova-20b.yaml").write_text(_renamed(model, MODEL))
    with (tree / CATALOG / "flags/vllm.yaml").open("a") as flags:
        flags.write(_flag())
    return tree


def _renamed(row: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        row = re.sub(old, new, row)
    return row


def _flag() -> str:
    """One that the newest recorded version takes and no row explains."""
    recorded = nearest_flags("vllm", None)
    explained = {flag for row in catalog.flags("vllm") for flag in row.flags}
    assert recorded is not None
    flag = min(recorded.flags - explained)
    return (
        f'- id: "vllm {flag}"\n  engine: vllm\n  flags: ["{flag}"]\n  means: What a newcomer found out.\n'
        f'  grade: B\n  sources: ["vLLM {recorded.version} vllm serve --help"]\n'
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_new_row_asks_for_refresh_and_nothing_else(tree: Path):
    stale = _run(tree, "scripts/refresh", "--check", "facts")
    assert stale.returncode == 1
    assert "tests/golden/facts.csv: 1x-rtx-5090 nova-20b: is new" in stale.stdout
    for words in (
        ["scripts/refresh"],
        ["scripts/lint-rows"],
        ["scripts/lint-text"],
        ["-m", "pytest", "-n", "2", "-m", "not engine and not slow and not timing", *TESTS],
    ):
        done = _run(tree, *words)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def _run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    return subprocess.run(
        [sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )

"""Pages that a person can read, for eight boxes. UPRIGHT_UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.plan import command

FOLDER = Path(__file__).parent / "plans"
CASES = {
    "8x96": ("kimi-k2.6 --box 8x-rtx-pro-6000-server", 0),
    "4x96": ("kimi-k2.6 --box 4x-rtx-pro-6000-server", 1),
    "2x96-768": ("kimi-k2.6 --box 2x-rtx-pro-6000-max-q-epyc-9175f", 0),
    "1x96-512": ("kimi-k2.6 --box 1x-rtx-pro-6000-server --host-memory 512", 0),
    "hgx-b200": ("kimi-k2.6 --box hgx-b200", 0),
    "dgx-spark": ("kimi-k2.6 --box dgx-spark", 1),
    "8x5090": ("kimi-k2.6 --box 8x-rtx-5090", 1),
    "laptop": ("kimi-k2.6 --box laptop", 1),
    "k25-fraction": (
        "kimi-k2.5 --box 8x-rtx-pro-6000-server-dual-socket --engine sglang --engine-version 0.5.8 "
        "--gpu-memory-utilization 0.787",
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_page(name, monkeypatch):
    words, code = CASES[name]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(command, words.split(), prog_name="upright plan")
    assert done.exit_code == code, done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    path, text = FOLDER / f"{name}.txt", f"$ upright plan {words}\n{done.stdout}{done.stderr}"
    if os.environ.get("UPRIGHT_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()

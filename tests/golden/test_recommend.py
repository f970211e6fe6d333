"""What is recommended for ten boxes, as people read it. UPRIGHT_UPDATE_GOLDEN=1 writes the pages anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.recommend import command

FOLDER = Path(__file__).parent / "recommend"
CASES = {
    "1x96": "--box 1x-rtx-pro-6000-server",
    "2x96": "--box 2x-rtx-pro-6000-server",
    "4x96": "--box 4x-rtx-pro-6000-server",
    "8x96": "--box 8x-rtx-pro-6000-server",
    "2x5090-512": "--box 2x-rtx-5090 --ram 512GB",
    "1x5090-128": "--box 1x-rtx-5090 --ram 128GB",
    "1x4090-96": "--box 1x-rtx-4090 --ram 96GB",
    "dgx-spark": "--box dgx-spark",
    "8xh200": "--box hgx-h200",
    "8xb200": "--box hgx-b200",
}


@pytest.mark.parametrize("name", CASES)
def test_page(name, monkeypatch, tmp_path):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    done = CliRunner().invoke(command, CASES[name].split(), prog_name="upright recommend")
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "Published on such a box" in done.stdout or "No run on such a box is published" in done.stdout
    path, text = FOLDER / f"{name}.txt", f"$ upright recommend {CASES[name]}\n{done.stdout}{done.stderr}"
    if os.environ.get("UPRIGHT_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()

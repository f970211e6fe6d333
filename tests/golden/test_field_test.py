"""The first hour on three boxes, as people read its schedule. UPRIGHT_UPDATE_GOLDEN=1 writes the pages anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.field_test import command

FOLDER = Path(__file__).parent / "field_test"
CASES = {
    "8x-rtx-pro-6000": "--box 8x-rtx-pro-6000-server --dry-run",
    "dgx-spark": "--box dgx-spark --dry-run",
    "b200": "--box 1x-b200-sxm --dry-run --spend-limit 5 --price-per-hour 6",
}


@pytest.mark.parametrize("name", CASES)
def test_schedule(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    done = CliRunner().invoke(command, CASES[name].split(), prog_name="upright field-test")
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    path, text = FOLDER / f"{name}.txt", f"$ upright field-test {CASES[name]}\n{done.stdout}{done.stderr}"
    if os.environ.get("UPRIGHT_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()

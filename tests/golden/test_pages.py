"""The main pages at 50, 80 and 120 columns: as recorded, and none is wider than the terminal.
UPRIGHT_UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli

FOLDER = Path(__file__).parent / "pages"
EIGHT = "kimi-k2.6 --box 8x-rtx-pro-6000-server"
POOL = "tests/golden/pages/kv-cache-too-small.log"
CASES = {
    "plan": (f"plan {EIGHT}", 0),
    "plan-no": ("plan kimi-k2.6 --box 8x-rtx-5090", 1),
    "render": (f"render {EIGHT}", 0),
    "render-explain": (f"render {EIGHT} --explain", 0),
    "check": (f"check {EIGHT}", 0),
    "explain": ("explain DCP", 0),
    "compare": ("compare kimi-k2.6 --box 4x-rtx-pro-6000-server --box 8x-rtx-pro-6000-server --box hgx-b200", 0),
    "diagnose": (f"diagnose {POOL}", 1),
    "ps": ("ps", 0),
    "prove": ("prove --dry-run --to context --context 64k --rates 300,20", 0),
}
FREE = ("render", "check")
"""A command to paste is not wrapped, and pipes get one line a sentence, so that they can be searched."""


@pytest.mark.parametrize("columns", [50, 80, 120])
@pytest.mark.parametrize("name", CASES)
def test_page(name: str, columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words, code = CASES[name]
    monkeypatch.chdir(FOLDER.parents[2])
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    done = CliRunner().invoke(cli, words.split(), prog_name="upright")
    assert done.exit_code == code, done.output
    path, text = FOLDER / f"{name}-{columns}.txt", f"$ upright {words}\n{done.stdout}"
    if os.environ.get("UPRIGHT_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
    if name not in FREE:
        wide = [line for line in done.stdout.splitlines() if len(line) > columns and not _whole(line)]
        assert wide == []


def _whole(line: str) -> bool:
    """A word that cannot be broken, such as an address, or a line that is meant to be copied."""
    return len(line.split()) <= 2 or line.startswith(("accepted, ", "unverified, ", "sources "))

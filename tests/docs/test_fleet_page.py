"""docs/fleet.md does what it shows, with real engines behind a real smg."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.sessions import run_page
from upright.flows.fleet import read_fleet


@pytest.mark.engine
@pytest.mark.slow
def test_the_session_does_what_it_shows(llama_server: Path, smg: Path, tiny_model: Path, tmp_path: Path):
    shutil.copy(tiny_model, tmp_path)
    (tmp_path / "published").mkdir()
    shutil.copy(ROOT / "docs/examples/fleet.yaml", tmp_path / "published")
    environment = {
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "UPRIGHT_SMG": str(smg),
        "PATH": f"{llama_server.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    try:
        complaints = run_page(ROOT / "docs/fleet.md", tmp_path, environment)
    finally:
        words = ["upright", "fleet", "down", "pair"]
        subprocess.run(words, env={**os.environ, **environment}, capture_output=True, timeout=300)
    assert not complaints, "\n\n".join(complaints)


def test_the_fleet_that_the_page_shows_is_one(tmp_path: Path):
    page = (ROOT / "docs/fleet.md").read_text()
    shown = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "fleet.yaml").write_text(shown)
    fleet = read_fleet(tmp_path / "fleet.yaml")
    assert [box.name for box in fleet.boxes] == ["alpha", "beta"]

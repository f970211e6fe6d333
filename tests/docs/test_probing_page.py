"""docs/probing.md is executed: its boxes are the recordings of these tests."""

import os
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.docs.sessions import run_page, steps


def test_the_page_does_what_it_shows(tmp_path):
    page = ROOT / "docs/probing.md"
    assert len(steps(page)) >= 5
    (tmp_path / "boxes").symlink_to(ROOT / "tests/recordings/boxes")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/upright").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m upright "$@"\n')
    (tmp_path / "bin/upright").chmod(0o755)
    environment = {
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "PATH": f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)

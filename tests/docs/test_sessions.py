"""README and docs cannot rot: their sessions are executed, not pasted."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.sessions import agrees, run_page, steps

PAGES = [ROOT / "README.md", ROOT / "docs/quickstart.md"]


@pytest.mark.engine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_sessions_do_what_they_show(page: Path, llama_server: Path, tiny_model: Path, tmp_path: Path):
    shutil.copy(tiny_model, tmp_path)
    assert steps(page), "a page without a session proves nothing"
    environment = {
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "PATH": f"{llama_server.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)


@pytest.mark.parametrize(
    ("shown", "printed", "verdict"),
    [
        (["a … c"], ["a b c"], True),
        (["a … c"], ["a b"], False),
        (["a", "…", "z"], ["a", "b", "c", "z"], True),
        (["a", "…"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a.b"], ["axb"], False),
    ],
)
def test_the_comparison_can_fail(shown: list[str], printed: list[str], verdict: bool):
    assert agrees(tuple(shown), printed) is verdict

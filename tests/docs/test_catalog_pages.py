"""docs/explain.md, docs/catalog.md and docs/speed.md are executed: what they show is what the verbs print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.sessions import run_page, steps


@pytest.mark.parametrize(("name", "least"), [("explain.md", 10), ("catalog.md", 5), ("speed.md", 6)])
def test_the_page_does_what_it_shows(name: str, least: int, tmp_path: Path) -> None:
    page = ROOT / "docs" / name
    assert len(steps(page)) >= least
    environment = {"UPRIGHT_HOME": str(tmp_path / "home")}
    complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)

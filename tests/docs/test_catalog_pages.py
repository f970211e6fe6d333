"""Pages that need no engine are executed: what they show is what the verbs print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.sessions import run_page, steps

PAGES = [
    ("explain.md", 10),
    ("catalog.md", 5),
    ("speed.md", 6),
    ("purchase.md", 3),
    ("agent-box.md", 2),
    ("hybrid-box.md", 8),
    ("extending.md", 9),
]


@pytest.mark.parametrize(("name", "least"), PAGES)
def test_the_page_does_what_it_shows(name: str, least: int, tmp_path: Path) -> None:
    page = ROOT / "docs" / name
    assert len(steps(page)) >= least
    environment = {"UPRIGHT_HOME": str(tmp_path / "home")}
    complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)


def test_the_client_of_the_walk_is_told_what_the_page_says() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/extending.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    exec(compile(blocks[0], "docs/extending.md", "exec"), {})

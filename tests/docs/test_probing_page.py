"""docs/probing.md is executed: its boxes are the recordings of these tests."""

from tests.conftest import ROOT
from tests.docs.sessions import run_page, steps


def test_the_page_does_what_it_shows(tmp_path):
    page = ROOT / "docs/probing.md"
    assert len(steps(page)) >= 5
    (tmp_path / "boxes").symlink_to(ROOT / "tests/recordings/boxes")
    environment = {
        "UPRIGHT_HOME": str(tmp_path / "home"),
    }
    complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)

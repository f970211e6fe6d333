"""The README's capture of a run is what a run prints."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.engine
def test_the_capture_is_of_today() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/capture-run", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_a_whole_run() -> None:
    page = (ROOT / "README.md").read_text()
    capture = page.partition("<!-- capture: scripts/capture-run -->\n```text\n")[2].partition("```\n")[0]
    assert capture.startswith("$ upright demo\n")
    assert re.search(r"\n  stands +yes\n", capture)
    assert re.search(r"\n  decode +[\d,.]+ tok/s \(median of \d+ answers, measured\)\n", capture)
    assert re.search(r"\n  prefill +[\d,.]+ tok/s \(a prompt of [\d,]+ tokens, measured\)\n", capture)
    assert capture.splitlines()[-1].startswith("next: upright ")

"""README and docs cannot rot: their sessions are executed, not pasted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import upright
from tests.command import program
from tests.conftest import ROOT, TINY_DRAFT
from tests.docs.sessions import agrees, run_page, steps
from upright.facts import store
from upright.serving.launch import stop

_PAGES = (
    "quickstart",
    "proving",
    "clients",
    "diagnosing",
    "benchmarking",
    "reports",
    "recommending",
    "engines",
    "monitoring",
)
_LONG_PAGES = ("sharing", "planning", "sizing", "speculation", "scale", "field-test")
PAGES = [
    ROOT / "README.md",
    *(ROOT / f"docs/{name}.md" for name in _PAGES),
    *(pytest.param(ROOT / f"docs/{name}.md", marks=pytest.mark.slow) for name in _LONG_PAGES),
]


@pytest.mark.engine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_sessions_do_what_they_show(page: Path, llama_server: Path, tiny_model: Path, tmp_path: Path):
    shutil.copy(tiny_model, tmp_path)
    shutil.copy(TINY_DRAFT, tmp_path)
    shutil.copytree(ROOT / "docs/examples", tmp_path / "published")
    assert steps(page), "a page without a session proves nothing"
    environment = {
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
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
        (["a", "z"], ["a", "  5.2 s so far: a", "  10.3 s so far", "z"], True),
        (["a", "z"], ["a", "2 h so far", "z"], False),
    ],
)
def test_the_comparison_can_fail(shown: list[str], printed: list[str], verdict: bool):
    assert agrees(tuple(shown), printed) is verdict


@pytest.mark.engine
def test_the_library_page_runs_as_written(
    llama_server: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One namespace, block after block; and every exported name is used on the page."""
    page = (ROOT / "docs/api.md").read_text()
    shutil.copy(tiny_model, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{llama_server.parent}:{os.environ['PATH']}")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    namespace: dict[str, object] = {}
    try:
        for block in blocks:
            exec(compile(block, "docs/api.md", "exec"), namespace)
    finally:
        for directory in store.deployments():
            stop(directory)


def test_a_page_that_shows_a_session_is_executed():
    """Other pages show output as text, and say where it was seen."""
    executed = {
        "README.md",
        "diagnosing.md",
        "benchmarking.md",
        "reports.md",
        "monitoring.md",
        "scale.md",
        "speculation.md",
        "launching.md",
        "quickstart.md",
        "speed.md",
        "probing.md",
        "catalog.md",
        "explain.md",
        "fetching.md",
        "clients.md",
        "sharing.md",
        "planning.md",
        "proving.md",
        "sizing.md",
        "fleet.md",
        "field-test.md",
        "recommending.md",
        "engines.md",
        "purchase.md",
        "agent-box.md",
        "hybrid-box.md",
        "extending.md",
    }
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert {page.name for page in pages if "```console" in page.read_text()} == executed


def test_every_exported_name_is_on_the_library_page():
    page = (ROOT / "docs/api.md").read_text()
    missing = [name for name in upright.__all__ if name != "__version__" and f"upright.{name}" not in page]
    assert not missing


def test_the_picture_of_a_comparison_is_the_one_that_its_page_draws(tmp_path: Path):
    page = ROOT / "docs/recommending.md"
    drawing = next(step.command for step in steps(page) if "--svg compare.svg" in step.command)
    done = subprocess.run(
        [program(), *shlex.split(drawing)[1:]], cwd=tmp_path, env={**os.environ, "UPRIGHT_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "compare.svg").read_text() == (ROOT / "docs/examples/compare.svg").read_text()

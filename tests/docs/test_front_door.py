"""From a wheel, in a fresh environment, outside the repository: what README and tutorials tell a stranger to type."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY_DRAFT, TINY_MODEL
from tests.docs.sessions import run_page
from upright import __version__

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TYPED = ("README.md", "docs/quickstart.md", "docs/purchase.md", "docs/agent-box.md", "docs/hybrid-box.md")
FIRST_ANSWER_SECONDS = 10
DEMO_SECONDS = 60


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel is made from the sdist, so that both are whole."""
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run([*words, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True, timeout=300)
    with tarfile.open(folder / f"upright-{__version__}.tar.gz") as archive:
        archive.extractall(folder / "source", filter="data")
    source = folder / f"source/upright-{__version__}"
    subprocess.run([*words, "-t", "wheel"], cwd=source, check=True, capture_output=True, timeout=300)
    return folder / f"upright-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `upright` is, after `pip install` of the wheel and of what it needs, by hash."""
    environment = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        environment / "bin/python",
        "install",
    ]
    for words in (["--require-hashes", "-r", ROOT / "requirements.txt"], ["--no-deps", built]):
        subprocess.run([*pip, "-q", *words], check=True, capture_output=True, timeout=900)
    return environment / "bin"


def test_the_wheel_carries_what_it_needs(built: Path) -> None:
    names = zipfile.ZipFile(built).namelist()
    assert "upright/flows/line/payload/tiny-kimi-q8_0.gguf.gz" in names
    assert any(name.startswith("upright/facts/catalog/compiled/") for name in names)
    assert not [name for name in names if name.startswith("tests/")]


def test_the_first_answer_comes_at_once(programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The very first command after the install, nothing compiled yet."""
    began = time.monotonic()
    words = [programs / "upright", "plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server"]
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home")}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\nfirst answer after {seconds:.1f} s")
    assert done.stdout.startswith("Kimi-K2.6: fits\n"), done.stderr
    assert seconds < FIRST_ANSWER_SECONDS


def test_the_demo_comes_to_its_end(
    programs: Path, llama_server: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{llama_server.parent}:/usr/bin:/bin"}
    environment.pop("UPRIGHT_HOME", None)
    began = time.monotonic()
    words = [programs / "upright", "demo"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\ndemo after {seconds:.1f} s")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".local/share/upright/demo/report.html").is_file()
    assert seconds < DEMO_SECONDS


@pytest.mark.parametrize("page", TYPED)
def test_what_is_typed_does_what_is_shown(page: str, programs: Path, llama_server: Path, tmp_path: Path) -> None:
    for model in (TINY_MODEL, TINY_DRAFT):
        shutil.copy(model, tmp_path)
    environment = {"UPRIGHT_HOME": str(tmp_path / "home"), "PATH": f"{llama_server.parent}:{os.environ['PATH']}"}
    complaints = run_page(ROOT / page, tmp_path, environment, programs)
    assert not complaints, "\n\n".join(complaints)
